"""Copying a log, a little at a time, into an empty one that is to take its place.

Batches come over byte for byte with their offsets. What a log knows beside its batches (where it
starts, its leader epochs, producers whose batches are deleted) comes over in the last moment. A
crash leaves a log like any other; `LogCopy.resume` cuts off what the source has lost since.

Kafka's counterparts: `ReplicaAlterLogDirsThread`, `LocalLeaderEndPoint`. There producers are known
in the copy only by the batches that were copied.
"""

from itertools import islice

from ottla.record.batch import batch_at, iter_batches
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.reader import Isolation

MAX_BATCHES = 250


def start_of_copy(source: PartitionLog) -> int:
    """Where the batch begins that holds the log's first offset. Raises `StorageError`."""
    start = source.log_start_offset
    data = source.reader.read(start, 1, Isolation.HIGH_WATERMARK)
    if data.records is None:
        return start
    with source.health.guarding():
        return min(start, batch_at(data.records.read(), 0).base_offset)


class LogCopy:
    """Brings `target` up to `source`. All methods raise `StorageError`."""

    def __init__(self, source: PartitionLog, target: PartitionLog) -> None:
        self.source = source
        self.target = target
        self._cut_count = source.offsets.cut_count

    @property
    def lag(self) -> int:
        """How many offsets the copy lacks."""
        return max(0, self.source.log_end_offset - self.target.log_end_offset)

    @property
    def has_more(self) -> bool:
        """Whether there is something to copy that readers may see."""
        return self.target.log_end_offset < self.source.high_watermark

    def resume(self, now_ms: int) -> None:
        """Makes a copy from before a restart one of what the source is now.

        A power failure takes what was not flushed, of each on its own, and the source may have been
        given other records since in place of what it lost: so this comes before the first append.
        """
        if self.target.segments.first.base_offset > start_of_copy(self.source):
            self._restart(now_ms)
        else:
            self.target.maintenance.truncate_to(self.source.log_end_offset, now_ms=now_ms)

    def step(self, max_size: int, now_ms: int) -> int:
        """Copies whole batches of up to `max_size` bytes, at least one; returns their size.

        Of small batches only some are copied, since each costs its time. 0 means that all is copied
        that readers may see. Raises `ApiError` for a damaged batch.
        """
        source, target = self.source, self.target
        if self._cut_count != source.offsets.cut_count or self._is_overtaken():
            self._restart(now_ms)
        offset = max(target.log_end_offset, source.log_start_offset)
        if not self.has_more:
            return 0
        limit = min(max_size, target.config.segment_bytes)
        data = source.reader.read(offset, limit, Isolation.HIGH_WATERMARK)
        if data.records is None:
            # Compaction has taken the records at the source's end.
            target.writer.skip_to(source.high_watermark, now_ms=now_ms)
            return 0
        with source.health.guarding():
            region = data.records.read()
        batches = islice(iter_batches(region, allow_torn_tail=True), MAX_BATCHES)
        size = sum(one.size for one in batches)
        target.writer.append_as_follower(memoryview(region)[:size], now_ms=now_ms)
        target.writer.write_out()
        return size

    def carry_over(self) -> None:
        """Copies the rest of the source's state to a copy that has reached the source's end."""
        assert self.lag == 0
        self.target.maintenance.take_over(self.source)

    def _is_overtaken(self) -> bool:
        """Whether what comes next in the copy is gone from the source."""
        end = self.target.log_end_offset
        return end < self.source.log_start_offset and end < start_of_copy(self.source)

    def _restart(self, now_ms: int) -> None:
        """Empties the copy and starts again at the source's current start."""
        self.target.maintenance.truncate_fully_and_start_at(
            start_of_copy(self.source), now_ms=now_ms
        )
        self._cut_count = self.source.offsets.cut_count
