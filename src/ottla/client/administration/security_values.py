"""Passwords, access rules and delegation tokens: values, independent of how they were read."""

from collections.abc import Iterable, Sequence
from dataclasses import field

from ottla.base.errors import UnknownNameError
from ottla.base.principal import Principal
from ottla.base.values import dataclass

DEFAULT_ITERATIONS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialUpsertion:
    """A user's new password for `SCRAM-SHA-256` or `SCRAM-SHA-512`; it is never printed.

    >>> ottla.UserScramCredentialUpsertion(user="ana", mechanism="SCRAM-SHA-256", password="pot")
    UserScramCredentialUpsertion(user='ana', mechanism='SCRAM-SHA-256', iterations=4096)
    """

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = DEFAULT_ITERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialDeletion:
    """Removes a user's password for one mechanism.

    >>> ottla.UserScramCredentialDeletion(user="ana", mechanism="SCRAM-SHA-256").user
    'ana'
    """

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AclBinding:
    """Operations that a principal is allowed, or denied, on resources. Values are Kafka's names.

    `resource_type` is TOPIC, GROUP, CLUSTER (whose name is `kafka-cluster`), TRANSACTIONAL_ID,
    DELEGATION_TOKEN or USER, `pattern_type` LITERAL (`*` is every name) or PREFIXED, and
    `permission` ALLOW or DENY. `operation` is such as READ, WRITE, DESCRIBE or ALL.

    >>> acl = ottla.AclBinding(name="orders", principal="User:ana", operation="READ")
    >>> acl.resource_type, acl.pattern_type, acl.host, acl.permission
    ('TOPIC', 'LITERAL', '*', 'ALLOW')
    """

    resource_type: str = "TOPIC"
    name: str
    pattern_type: str = "LITERAL"
    principal: str
    host: str = "*"
    operation: str
    permission: str = "ALLOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBindingFilter:
    """A filter for `AclBinding`s; `None` and ANY match everything. The `pattern_type` MATCH selects
    the rules that apply to a resource of that name.

    >>> ottla.AclBindingFilter(principal="User:ana").operation
    'ANY'
    """

    resource_type: str = "ANY"
    name: str | None = None
    pattern_type: str = "ANY"
    principal: str | None = None
    host: str | None = None
    operation: str = "ANY"
    permission: str = "ANY"


EVERY_ACL = AclBindingFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token; its `secret` is never printed with it."""

    token_id: str
    owner: Principal
    requester: Principal | None
    renewers: Sequence[Principal]
    issued_ms: int
    expires_ms: int
    max_ms: int
    secret: bytes = field(repr=False)


def find_token(tokens: Iterable[DelegationToken], token_id: str) -> DelegationToken:
    """The token of an id; raises `UnknownNameError`."""
    by_id = {one.token_id: one for one in tokens}
    if token_id not in by_id:
        raise UnknownNameError("delegation token", token_id, by_id)
    return by_id[token_id]
