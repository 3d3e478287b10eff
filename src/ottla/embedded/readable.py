"""What can be read from a log, both one that this process has open and one whose files it only
reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.base.arguments import (
    check_offset,
    check_partition,
    check_partition_offsets,
    check_seconds,
)
from ottla.base.closing import Closing
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments

if TYPE_CHECKING:
    from ottla.embedded.scanning import Region, Scan, Tail
    from ottla.record.record import Record

Self = TypeVar("Self", bound="ReadableLog")


class ReadableLog(Closing, ABC):
    """Topics to read: by record, as tables, and as records arrive. What `Log` and `FollowedLog`
    share.

    >>> isinstance(log, ottla.ReadableLog)
    True
    """

    @abstractmethod
    def close(self) -> None:
        """Closes the log; later calls raise `UserError`.

        >>> log.close()
        >>> log.topics()
        Traceback (most recent call last):
        ottla.base.errors.UserError: this log is closed; open it again
        """

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """The partition count of every topic by name.

        >>> log.topics()["orders"]
        2
        """

    @abstractmethod
    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset and the end offset of each partition.

        >>> log.offsets("orders")
        {0: (0, 3), 1: (0, 1)}
        """

    @abstractmethod
    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """By partition the first offset at or after a time; `None` if there is none.

        >>> log.offsets_for_time("orders", 1_767_225_602_000)
        {0: 1, 1: None}
        """

    @abstractmethod
    def regions(self, place: TopicPartition, offset: int, end: int) -> "Iterator[Region]":
        """The batches of a partition from an offset up to another. If retention deleted the start,
        or the next offset meanwhile, continues at the log start offset. Raises `CorruptionError`,
        and `UserError` if the topic is deleted meanwhile.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> [len(region.data) for region in log.regions(place, 0, 3)]
        [238]
        """

    @abstractmethod
    def stable_ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """By partition the last stable offset.

        >>> log.stable_ends("orders")
        {0: 3, 1: 1}
        """

    @abstractmethod
    def wait_for_records(self, topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
        """Whether something was committed at or after offsets, or is within `seconds`.

        >>> log.wait_for_records("orders", {0: 2}, seconds=1.0)
        True
        >>> log.wait_for_records("orders", {0: 3}, seconds=0.0)
        False
        """

    @abstractmethod
    def _check_open(self) -> None:
        """Raises `UserError` after `close`."""

    @answers_unknown_arguments
    def read(
        self, topic: str, partition: int = 0, *, from_offset: int = 0, until: int | None = None
    ) -> "Iterator[Record]":
        """The records of a partition from an offset up to `until`, or to the current end. If
        retention or `DeleteRecords` deleted `from_offset`, or the next offset meanwhile, continues
        at the log start offset. Control records and those of unfinished or aborted transactions are
        left out. Raises `CorruptionError` for a damaged batch, and `UserError` if the topic is
        deleted meanwhile.

        >>> [record.value for record in log.read("orders", 0, from_offset=1)]
        [b'coffee', b'cake']
        """
        place = TopicPartition(topic, check_partition(partition))
        begin = check_offset(from_offset)
        end = self.stable_ends(topic, [place.partition])[place.partition]
        if until is not None:
            end = min(check_offset(until), end)
        return self._records(place, begin, end)

    def _records(self, place: TopicPartition, begin: int, end: int) -> "Iterator[Record]":
        for region in self.regions(place, begin, end):
            for record in region.records():
                yield record
                self._check_open()

    @answers_unknown_arguments
    def scan(
        self,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        from_offset: int | Mapping[int, int] = 0,
        from_time_ms: int | None = None,
        until_time_ms: int | None = None,
    ) -> "Scan":
        """The committed records of a topic, or of some of its partitions, partition by partition.
        Iterate over `TopicRecord`s, or call `to_arrow()`, `to_pandas()`, `to_polars()`,
        `to_duckdb()` or `batches()`. A time stands for the offset of the first record at or after
        it. Raises `UserError` for a partition that the topic does not have.

        >>> [record.value for record in log.scan("orders", from_time_ms=1_767_225_602_000)]
        [b'coffee', b'cake']
        >>> log.scan("orders", partitions=[1]).to_arrow().column("value").to_pylist()
        [b'milk']
        """
        begins: Mapping[int, int | None] = {}
        ends: Mapping[int, int | None] = {}
        if from_time_ms is not None:
            begins = self.offsets_for_time(topic, from_time_ms)
        if until_time_ms is not None:
            ends = self.offsets_for_time(topic, until_time_ms)
        spans = {}
        stable = self.stable_ends(topic, partitions)
        given = _starts(topic, from_offset, stable)
        for index, end in stable.items():
            begin, bound = begins.get(index, given.get(index, 0)), ends.get(index, end)
            spans[index] = (end if begin is None else begin, end if bound is None else bound)
        from ottla.embedded.scanning import Scan

        return Scan(self, topic, spans)

    @answers_unknown_arguments
    def tail(
        self,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        from_offset: int | Mapping[int, int] | None = None,
        timeout_s: float | None = None,
    ) -> "Tail":
        """Records as they arrive, from now on or from offsets by partition: `for` and `async for`.
        Without `timeout_s` it waits forever; with it, it ends when nothing has arrived for that
        long.

        >>> for record in log.tail("orders", from_offset={0: 1}, timeout_s=0):
        ...     print(record.value)
        b'coffee'
        b'cake'
        """
        if timeout_s is not None:
            check_seconds(timeout_s)
        ends = self.stable_ends(topic, partitions)
        starts = {} if from_offset is None else _starts(topic, from_offset, ends)
        from ottla.embedded.scanning import Tail

        return Tail(self, topic, ends | starts, timeout_s)


def _starts(
    topic: str, from_offset: int | Mapping[int, int], partitions: Collection[int]
) -> dict[int, int]:
    """Where to begin, by partition. Raises `UserError` for a partition that is not read."""
    if not isinstance(from_offset, Mapping):
        return dict.fromkeys(partitions, check_offset(from_offset))
    starts = check_partition_offsets(from_offset)
    for index in starts:
        if index not in partitions:
            read = ", ".join(map(str, partitions))
            raise UserError(f"from_offset has partition {index}; of topic {topic} are read: {read}")
    return starts
