"""What a row of the matrix is: a request, and the operations that it needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.principal import Principal
from ottla.codec.schema import Message, Struct
from ottla.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topics import NewTopic

ANA = Principal("User", "ana")
OWNER = Principal("User", "bob")
HOST = "10.0.0.9"
TOPIC, GROUP, TXN, TOKEN = "orders-eu", "billing-1", "payments-7", "token-12"
TOPIC_ID = Uuid(b"an id of 16 byte")
NEW_TOPIC = NewTopic(name=TOPIC, partition_count=1, topic_id=TOPIC_ID)

T = ResourceType.TOPIC
G = ResourceType.GROUP
C = ResourceType.CLUSTER
X = ResourceType.TRANSACTIONAL_ID
D = ResourceType.DELEGATION_TOKEN
U = ResourceType.USER
NAMES = {T: TOPIC, G: GROUP, C: CLUSTER_NAME, X: TXN, D: TOKEN, U: str(OWNER)}

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOKEN_DENIED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
CODES = {T: TOPIC_DENIED, G: GROUP_DENIED, C: CLUSTER_DENIED, X: TXN_DENIED, U: TOKEN_DENIED}

Need = tuple[Operation, ResourceType]
Op = Operation


@dataclass(frozen=True)
class Row:
    """A request, and what it needs. `shows`: a denial is seen by what is left out of the answer."""

    request: Callable[[], Message]
    version: int
    needs: tuple[Need, ...] = ()
    shows: Callable[[Any], Any] | None = None

    def is_denied(self, answer: Any, need: Need) -> bool:
        if self.shows is not None:
            return not self.shows(answer)
        return CODES[need[1]] in error_codes(answer)


def error_codes(value: Any) -> set[int]:
    """Every error code in an answer, wherever it stands."""
    if isinstance(value, list):
        return {code for one in value for code in error_codes(one)}
    if not isinstance(value, Struct):
        return set()
    found = set()
    for field in value.FIELDS:
        content = getattr(value, field.name)
        if field.name.endswith("error_code"):
            found.add(content)
        else:
            found |= error_codes(content)
    return found


def offsets(module: Any, name: str, *, by_id: bool = False) -> Any:
    topic, partition = getattr(module, f"{name}RequestTopic"), f"{name}RequestPartition"
    names = {"topic_id": TOPIC_ID} if by_id else {"name": TOPIC}
    return topic(**names, partitions=[getattr(module, partition)(partition_index=0)])


def acl(
    need: Need,
    permission: Permission = Permission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> Acl:
    operation, resource_type = need
    name = NAMES[resource_type]
    if pattern_type is PatternType.PREFIXED:
        name = name[:-2]
    pattern = ResourcePattern(resource_type, pattern_type, name)
    return Acl(pattern, Entry(str(ANA), "*", operation, permission))
