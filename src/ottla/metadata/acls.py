"""Access rules: principals, operations that are allowed or denied, resources; and filters.

Numbers are Kafka's. Its counterparts: `AccessControlEntry`, `ResourcePattern`, `AclBinding`,
`AclBindingFilter` (KIP-11, KIP-290).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.values import dataclass

Kind = TypeVar("Kind", bound=IntEnum)

WILDCARD = "*"
"""As the name of a literal pattern: every resource of its type. As a host: every host."""

EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
    __hash__ = int.__hash__  # an Enum's own hash is Python code, and every decision hashes members

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
    ResourceType.DELEGATION_TOKEN: (8,),
    ResourceType.USER: (13, 14),
}
"""The operations of each resource type (`AclEntry.supportedOperations`)."""

IMPLYING = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operations that an allowance of one of others implies; a denial implies nothing."""


def known(kind: type[Kind], number: int) -> Kind:
    """The member of a number; a number of a later Kafka is UNKNOWN."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


class ResourcePattern(NamedTuple):
    """The resources of a rule: one name, all names (`*`), or the names with a prefix."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str


class Entry(NamedTuple):
    """The principal of a rule, as `TYPE:NAME`, and what the rule allows or denies."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    pattern: ResourcePattern
    entry: Entry

    @property
    def is_known(self) -> bool:
        """Whether no part of it is one of a later Kafka."""
        pattern, entry = self
        parts = (pattern.resource_type, pattern.pattern_type, entry.operation, entry.permission)
        return 0 not in parts

    def check(self) -> None:
        """Raises `ApiError` for an invalid rule."""
        pattern, entry = self
        if pattern.resource_type not in OPERATIONS:
            raise _invalid("Invalid resource type")
        if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise _invalid(f"Invalid pattern type {pattern.pattern_type.name}")
        if not pattern.name:
            raise _invalid("Resource name should not be empty")
        if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
            raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if entry.permission not in (Permission.DENY, Permission.ALLOW):
            raise _invalid("Invalid permission type")
        # As in Kafka, any other operation is valid; one that the resource type does not have has no
        # effect.
        if entry.operation in (Operation.UNKNOWN, Operation.ANY):
            raise _invalid(f"Invalid operation {entry.operation.name}")
        kind, colon, name = entry.principal.partition(":")
        if not (kind and colon and name):
            raise _invalid(f"Could not parse principal from `{entry.principal}`")
        if not entry.host:
            raise _invalid("Host should not be empty")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


NAMED = (PatternType.LITERAL, PatternType.PREFIXED)
"""The types of patterns that rules have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """A filter for rules; `None` and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def check(self) -> None:
        """Raises `ApiError` for a filter with unknown parts."""
        parts = (self.resource_type, self.pattern_type, self.operation, self.permission)
        if 0 in parts:
            raise _invalid("The filter contained UNKNOWN elements")

    def matches(self, acl: Acl) -> bool:
        pattern, entry = acl
        return (
            self.resource_type in (ResourceType.ANY, pattern.resource_type)
            and self._matches_name(pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def _matches_name(self, pattern: ResourcePattern) -> bool:
        is_right_type = self.pattern_type in (
            PatternType.ANY,
            PatternType.MATCH,
            pattern.pattern_type,
        )
        if not is_right_type or self.name is None:
            return is_right_type
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        # The patterns that match a resource of this name.
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def among(self, acls: Mapping[ResourcePattern, Iterable[Entry]]) -> Iterator[Acl]:
        """The rules that may match: of one pattern, if the filter names it wholly, or all."""
        patterns: Iterable[ResourcePattern] = acls
        if (
            self.name is not None
            and self.pattern_type in NAMED
            and self.resource_type in OPERATIONS
        ):
            pattern = ResourcePattern(self.resource_type, self.pattern_type, self.name)
            patterns = [pattern] if pattern in acls else []
        return (Acl(pattern, entry) for pattern in patterns for entry in acls[pattern])

    def select(self, acls: Iterable[Acl]) -> list[Acl]:
        return [one for one in acls if self.matches(one)]
