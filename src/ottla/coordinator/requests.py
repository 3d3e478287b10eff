"""Values that groups of every kind share: the requesting client, and the response."""

from typing import Final, Self

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass

UNKNOWN_MEMBER: Final = ""
"""The member id of a member that has none yet."""

NO_GENERATION: Final = -1

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The group protocols by the names that settings and clients have for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Done, or why not."""

    error: ErrorCode = ErrorCode.NONE

    def refused(self, code: ErrorCode) -> Self:
        return type(self)(error=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClaim:
    """The member that a client claims to be, in which generation of which group.

    `instance_id` is the name of a static member (KIP-345). In the consumer protocol the generation
    is the member's epoch.
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One line of the list of all groups; `group_type` is the protocol's name."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str = CLASSIC
