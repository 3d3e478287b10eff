"""The decision of a coordinator's operation: records to append, and responses.

An operation changes nothing. Its caller appends the records, replays them, and only then lets the
rest of the decision take effect. Kafka's counterpart: `CoordinatorResult`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.events import Event
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.codec.schema import Message


class Answer(Protocol):
    """The answer to a request."""

    def refused(self, code: ErrorCode) -> Self:
        """The answer in its place when the records cannot be appended."""


AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A record of an internal topic; without a value it is a tombstone."""

    key: Message
    value: Message | None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request that has waited; the pending_id is the one that came with it."""

    pending_id: Hashable
    answer: Answer


Deadlines = Mapping[Hashable, float | None]
"""Deadlines to set, on the monotonic clock, and with `None` to cancel, by key."""


class Decision(NamedTuple, Generic[AnswerT]):
    """`key` chooses the partition of the internal topic: the id of the group or transaction.

    `answer` is for the request at hand; `None` means that it comes later, under its pending_id.
    `deadlines` and `group`, the group as the decision leaves it, take effect once the records are
    appended. `None` leaves the group as the records do. `producer` is the id and epoch in whose
    transaction the records are, and `too_large` what to answer when they do not fit. `events` are
    reported once the decision has taken effect.
    """

    key: str
    records: tuple[CoordinatorRecord, ...] = ()
    answer: AnswerT | None = None
    replies: tuple[Reply, ...] = ()
    deadlines: Deadlines = MappingProxyType({})
    group: object | None = None
    producer: tuple[int, int] | None = None
    too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    events: Sequence[Event] = ()


@dataclass(slots=True)
class Draft:
    """A decision in the making, at one moment."""

    key: str
    at: Timestamps
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: dict[Hashable, Answer] = field(default_factory=dict)
    deadlines: dict[Hashable, float | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def record(self, key: Message, value: Message | None) -> None:
        self.records.append(CoordinatorRecord(key, value))

    def reply(self, pending_id: Hashable, answer: Answer) -> None:
        """Answers a pending_id; none is answered twice."""
        assert pending_id not in self.replies
        self.replies[pending_id] = answer

    def decide(
        self,
        answer: AnswerT | None = None,
        group: object | None = None,
        *,
        producer: tuple[int, int] | None = None,
        too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR,
    ) -> Decision[AnswerT]:
        return Decision(
            key=self.key,
            records=tuple(self.records),
            answer=answer,
            replies=tuple([Reply(pending_id, one) for pending_id, one in self.replies.items()]),
            deadlines=self.deadlines,
            group=group,
            producer=producer,
            too_large=too_large,
            events=self.events,
        )
