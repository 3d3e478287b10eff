"""Values that groups of every kind share: the requesting client, and the response."""

from typing import Final, Self

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass

UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none yet."""

NO_GENERATION: Final = -1

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
"""The names of the group protocols in settings and requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A response with only an error code."""

    error: ErrorCode = ErrorCode.NONE

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClaim:
    """The group, member and generation that a client claims.

    `instance_id` identifies a static member (KIP-345). In the consumer protocol the generation is
    the member's epoch.
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group's entry in the list of groups; `group_type` is the name of the protocol."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str = CLASSIC
