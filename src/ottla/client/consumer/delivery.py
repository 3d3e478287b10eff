"""Records that are being returned to the application, and how far."""

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Final

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import ReadUpTo
from ottla.client.consumer.records import ConsumerRecord

ATTEMPTS: Final = 3
"""The first fetch may have begun before the damaged batch."""


@dataclass(slots=True)
class Handed:
    """Records of one partition that are being returned to the application."""

    place: TopicPartition
    version: int
    records: list[ConsumerRecord]
    left: Iterator[ConsumerRecord]

    def end(self) -> None:
        """Ends a loop over these records after its current one."""
        for _ in self.left:
            pass

    def count(self) -> int:
        """Number of records that the application has not seen."""
        return length_hint(self.left)

    def position(self) -> int:
        """The offset of the next record."""
        count = self.count()
        return self.records[-count].offset if count else self.records[-1].offset + 1

    def read_up_to(self, before: ReadUpTo) -> ReadUpTo:
        """The position with the epoch of the last record seen, `before` if there is none."""
        seen = len(self.records) - self.count()
        epoch = self.records[seen - 1].leader_epoch if seen else before.epoch
        return ReadUpTo(self.position(), epoch)


class Lists:
    """Lists of records, whose next one can be looked for before it is returned."""

    def __init__(self, lists: Iterable[list[ConsumerRecord]] = ()) -> None:
        self._lists = iter(lists)
        self._ahead: list[ConsumerRecord] | None = None
        self._failure: UserError | None = None

    def next(self) -> list[ConsumerRecord] | None:
        """Returns `None` after the last one; raises `UserError` for records that are damaged."""
        self.has_more()
        if self._failure is not None:
            raise self._failure
        found, self._ahead = self._ahead, None
        return found

    def has_more(self) -> bool:
        """Whether `next` returns a list, or raises."""
        if self._ahead is None and self._failure is None:
            try:
                self._ahead = next(self._lists, None)
            except UserError as error:
                self._failure = error
        return self._ahead is not None or self._failure is not None


class RepeatedDamage:
    """A damaged batch is fetched again before the application hears of it. The leader looks at what
    it is asked for twice from one offset, and another replica may have the batch whole.
    """

    def __init__(self) -> None:
        self._where: tuple[TopicPartition, ReadUpTo | None] | None = None
        self._count = 0

    def may_end(self, place: TopicPartition, at: ReadUpTo | None) -> bool:
        """Notes damage at a position; returns whether to fetch it once more."""
        if self._where != (place, at):
            self._where, self._count = (place, at), 0
        self._count += 1
        return self._count % ATTEMPTS != 0


def cut(lists: Iterable[list[ConsumerRecord]], size: int) -> Iterator[list[ConsumerRecord]]:
    """Splits lists of records into lists of at most this length."""
    for one in lists:
        records = iter(one)
        while some := list(islice(records, size)):
            yield some
