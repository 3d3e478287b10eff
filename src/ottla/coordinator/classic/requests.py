"""Requests of a classic group's members to the coordinator, and its responses: plain values.

Handlers convert them from and to requests of the wire; nothing here depends on versions of
messages.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Self

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.coordinator.requests import NO_GENERATION, UNKNOWN_MEMBER, MemberClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Somebody wants in. `protocols` are the assignors they can use, the preferred one first.

    `requires_member_id`: a new member without an instance id first gets its id (KIP-394).
    `can_skip_assignment`: a static leader that comes back understands that it need not assign
    (KIP-814).
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    requires_member_id: bool = True
    can_skip_assignment: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it when it assigns."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The generation that was joined; only the leader gets the `members`."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member fetches its assignment; the leader brings `assignments`, by member id."""

    claim: MemberClaim
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A member that leaves; an administrator may name a static member by its instance id alone."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """`errors` are in the order of those who leave, empty when the group itself is in error."""

    error: ErrorCode = ErrorCode.NONE
    errors: tuple[ErrorCode, ...] = ()

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """Metadata and assignment are shown while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """`state` is the state's name; `protocol` is empty unless the group is stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()
