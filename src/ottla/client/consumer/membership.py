"""What both group protocols share: events for the application, and requests of a member.

A membership is a state machine without I/O: `next_request` returns the next request to the
coordinator, `answered` takes the response, and `events` are what the application must handle before
the member continues, in order. `group.py` drives it.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import GroupMemberId
from ottla.codec.schema import Message

Partitions = frozenset[TopicPartition]

NEVER = float("inf")

OTHER_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which the coordinator is looked up again."""


class EventKind(Enum):
    """Kafka's counterpart: the methods of `ConsumerRebalanceListener`."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Event:
    """A change of what this member reads; lost partitions may already be another member's."""

    kind: EventKind
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """Identity and timeouts of the member, in milliseconds."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3000
    retry_backoff_ms: int = 100


class FatalError(ApiError):
    """The coordinator refuses this member of a group permanently; `code` is Kafka's error code."""


class Membership(Protocol):
    """A member of a group, in either protocol. Times are milliseconds of a monotonic clock."""

    events: deque[Event]
    owned: Partitions
    is_coordinator_lost: bool
    """Whether the coordinator must be found again before anything else is asked."""

    @property
    def identity(self) -> GroupMemberId | None:
        """Returns `None` while this is not a member."""

    @property
    def needs_topics(self) -> bool:
        """Whether `take_topics` must be called before the member can continue."""

    @property
    def unknown_ids(self) -> frozenset[bytes]:
        """Topic ids of the assignment whose names the member does not know."""

    @property
    def wanted_topics(self) -> frozenset[str]:
        """Topics of other members too, whose partition counts the group's leader needs."""

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Topics to read from now on; `regex` where the broker is to find them."""

    def take_topics(self, counts: Mapping[str, int], ids: Mapping[bytes, str]) -> None:
        """Partition counts of topics by name, and the names of topic ids, as they are now."""

    def due_ms(self, now_ms: float) -> float:
        """When `next_request` will return one."""

    def next_request(self, now_ms: float) -> Message | None:
        """The next request to the coordinator, if any."""

    def answered(self, request: Message, answer: Any, now_ms: float) -> None:
        """Raises `FatalError` if the coordinator will never accept this member."""

    def unreachable(self, now_ms: float) -> None:
        """The coordinator did not answer."""

    def handled(self) -> None:
        """The application has handled the first event."""

    @property
    def is_entering(self) -> bool:
        """Whether a request is pending whose response creates the member at the coordinator.

        That response is immediate, whatever the other members do.
        """

    def leave(self) -> Message | None:
        """Ends the membership: partitions are lost; returns the request for the coordinator."""

    def leave_after(self, answer: Any) -> Message | None:
        """The same for a response, after `leave`, to a request that joined the group."""

    def rejoin(self) -> None:
        """After `leave`: joins the group again."""
