"""Requests of a classic group's members and the coordinator's responses, as plain values.

Handlers convert them from and to wire messages. Nothing here depends on message versions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.coordinator.requests import NO_GENERATION, UNKNOWN_MEMBER, MemberClaim

if TYPE_CHECKING:
    from ottla.coordinator.classic.member import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request to join. `protocols` maps assignors to metadata, preferred assignor first.

    `requires_member_id`: a new member without an instance id first receives a member id (KIP-394).
    `can_skip_assignment`: a returning static leader supports `skip_assignment` (KIP-814).
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


class JoinAnswer(NamedTuple):
    """The response to JoinGroup; only the leader gets `members`, from which it computes the
    assignment.

    A tuple, as a generation of thousands of members makes one for each at once.
    """

    error: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    skip_assignment: bool = False
    members: "Sequence[Member]" = ()

    def refused(self, code: ErrorCode) -> "JoinAnswer":
        return JoinAnswer(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A request for the member's assignment; the leader sends `assignments`, by member id."""

    claim: MemberClaim
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


class SyncAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def refused(self, code: ErrorCode) -> "SyncAnswer":
        return SyncAnswer(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A member that leaves; an administrator may identify a static member by instance id alone."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """`errors` are in the order of the leaving members; empty if the whole request failed."""

    error: ErrorCode = ErrorCode.NONE
    errors: tuple[ErrorCode, ...] = ()

    def refused(self, code: ErrorCode) -> "LeaveAnswer":
        return LeaveAnswer(error=code)


class MemberDescription(NamedTuple):
    """A member as administrators see it; metadata and assignment are empty unless the group is
    stable.
    """

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
    members: Sequence[MemberDescription] = ()
