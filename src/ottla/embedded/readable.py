"""What can be read from a log, both one that this process has open and one whose files it only
reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from ottla.base.closing import Closing
from ottla.base.partitions import TopicPartition
from ottla.embedded.scanning import Region, Scan, Tail
from ottla.record.record import Record

Self = TypeVar("Self", bound="ReadableLog")


class ReadableLog(Closing, ABC):
    """Topics to read: by record, as tables, and as records arrive."""

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
    def regions(self, place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
        """The batches of a partition from an offset up to another. If retention deleted the start,
        or the next offset meanwhile, continues at the log start offset. Raises `CorruptionError`,
        and `UserError` when the topic is deleted under way.

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

    def read(
        self, topic: str, partition: int = 0, *, from_offset: int = 0, until: int | None = None
    ) -> Iterator[Record]:
        """The records of a partition from an offset up to `until`, or to the current end. If
        retention or `DeleteRecords` deleted `from_offset`, or the next offset meanwhile, continues
        at the log start offset. Control records and those of unfinished or aborted transactions are
        left out. Raises `CorruptionError` for a damaged batch, and `UserError` if the topic is
        deleted meanwhile.

        >>> [record.value for record in log.read("orders", 0, from_offset=1)]
        [b'coffee', b'cake']
        """
        stable = self.stable_ends(topic, [partition])[partition]
        end = stable if until is None else min(until, stable)
        for region in self.regions(TopicPartition(topic, partition), from_offset, end):
            for record in region.records():
                yield record
                self._check_open()

    def scan(
        self,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        from_offset: int | Mapping[int, int] = 0,
        from_time_ms: int | None = None,
        until_time_ms: int | None = None,
    ) -> Scan:
        """The committed records of a topic, or of some of its partitions, partition by partition.
        Iterate over `TopicRecord`s, or call `to_arrow()`, `to_pandas()`, `to_polars()`,
        `to_duckdb()` or `batches()`. A time stands for the offset of the first record at or after
        it.

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
        for index, end in self.stable_ends(topic, partitions).items():
            given = from_offset if isinstance(from_offset, int) else from_offset.get(index, 0)
            begin, bound = begins.get(index, given), ends.get(index, end)
            spans[index] = (end if begin is None else begin, end if bound is None else bound)
        return Scan(self, topic, spans)

    def tail(
        self,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        from_offset: Mapping[int, int] | None = None,
        timeout_s: float | None = None,
    ) -> Tail:
        """Records as they arrive, from now on or from offsets by partition: `for` and `async for`.
        Without `timeout_s` it waits forever; with it, it ends when nothing has arrived for that
        long.

        >>> for record in log.tail("orders", from_offset={0: 1}, timeout_s=0):
        ...     print(record.value)
        b'coffee'
        b'cake'
        """
        return Tail(
            self, topic, self.stable_ends(topic, partitions) | dict(from_offset or {}), timeout_s
        )
