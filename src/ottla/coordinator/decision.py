"""What an operation of a coordinator decides: records to append, and who is told what.

An operation changes nothing that must survive: whoever runs it appends the records, replays them
into the machine, and only then answers. Kafka's counterpart: `CoordinatorResult`.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.moment import Moment
from ottla.codec.schema import Message


class Answer(Protocol):
    """What somebody is told."""

    def refused(self, code: ErrorCode) -> Self:
        """What they are told instead when the records cannot be appended."""


AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """A record of an internal topic; without a value it is a tombstone."""

    key: Message
    value: Message | None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer for somebody who has waited; the ticket is what they left at the door."""

    ticket: Hashable
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[AnswerT]):
    """`key` chooses the partition of the internal topic: the id of the group or transaction.

    `answer` is for whoever asked; `None` means that it comes later, under the ticket they gave.
    """

    key: str
    records: tuple[CoordinatorRecord, ...] = ()
    answer: AnswerT | None = None
    replies: tuple[Reply, ...] = ()


@dataclass(slots=True)
class Draft:
    """A decision in the making, at one moment."""

    key: str
    at: Moment
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: dict[Hashable, Answer] = field(default_factory=dict)

    def record(self, key: Message, value: Message | None) -> None:
        self.records.append(CoordinatorRecord(key, value))

    def reply(self, ticket: Hashable, answer: Answer) -> None:
        """Answers a ticket; nobody is answered twice."""
        assert ticket not in self.replies
        self.replies[ticket] = answer

    def decide(self, answer: AnswerT | None = None) -> Decision[AnswerT]:
        return Decision(
            key=self.key,
            records=tuple(self.records),
            answer=answer,
            replies=tuple(Reply(ticket, one) for ticket, one in self.replies.items()),
        )
