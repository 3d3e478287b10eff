"""The decision of a coordinator's operation: records to append, and responses.

An operation does not change state. Its caller appends the records, replays them, and then applies
the rest of the decision. Kafka's counterpart: `CoordinatorResult`.
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
    """A response to a request."""

    def refused(self, code: ErrorCode) -> Self:
        """The response to send if the records could not be appended."""


AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A record of an internal topic; a tombstone if `value` is `None`."""

    key: Message
    value: Message | None


class Reply(NamedTuple):
    """A delayed response; `pending_id` is the one passed with the request."""

    pending_id: Hashable
    answer: Answer


Deadlines = Mapping[Hashable, float | None]
"""Deadlines on the monotonic clock in milliseconds, by key; `None` cancels a deadline."""


class Decision(NamedTuple, Generic[AnswerT]):
    """The result of an operation.

    `key` is the id of the group or transaction; it selects the partition of the internal topic.
    `answer` is the response, `None` if it follows later under the request's pending id. `deadlines`
    and `group`, the group after the decision, take effect once the records are appended; if `group`
    is `None`, only the records change the group. `producer` is the id and epoch in whose
    transaction the records are written, `too_large` the error if they exceed the record size.
    `events` are reported once the decision has taken effect.
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
    """A decision under construction, at a single point in time."""

    key: str
    at: Timestamps
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: dict[Hashable, Answer] = field(default_factory=dict)
    deadlines: dict[Hashable, float | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def record(self, key: Message, value: Message | None) -> None:
        self.records.append(CoordinatorRecord(key, value))

    def reply(self, pending_id: Hashable, answer: Answer) -> None:
        """Adds a delayed response; each pending id is answered once."""
        assert pending_id not in self.replies
        self.replies[pending_id] = answer

    def reply_all(self, answers: Mapping[Hashable, Answer]) -> None:
        """Adds many delayed responses."""
        assert self.replies.keys().isdisjoint(answers)
        self.replies.update(answers)

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
            replies=tuple(map(Reply._make, self.replies.items())),
            deadlines=self.deadlines,
            group=group,
            producer=producer,
            too_large=too_large,
            events=self.events,
        )
