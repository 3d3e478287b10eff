"""Copies a log in small steps into an empty one that will replace it.

Batches are copied byte for byte with their offsets. The rest of the log's state (log start, leader
epochs, producers whose batches are deleted) is copied at the end. A crash leaves an ordinary log;
`LogCopy.resume` truncates what the source no longer has.

Kafka's counterparts: `ReplicaAlterLogDirsThread`, `LocalLeaderEndPoint`. In Kafka, the copy only
knows the producers of the copied batches.
"""

from itertools import islice

from ottla.base.errors import CorruptionError
from ottla.base.files import base_name
from ottla.record.batch import batch_at, iter_batches
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog

MAX_BATCHES = 250


def start_of_copy(source: PartitionLog) -> int:
    """The base offset of the batch with the log's first local offset. Raises `StorageError`."""
    start = source.local_start_offset
    data = source.reader.read(start, 1, Isolation.HIGH_WATERMARK)
    if data.records is None:
        return start
    with source.health.guarding():
        return min(start, batch_at(data.records.read(), 0).base_offset)


class LogCopy:
    """Copies `source` to `target`. All methods raise `StorageError`."""

    def __init__(self, source: PartitionLog, target: PartitionLog) -> None:
        self.source = source
        self.target = target
        self._cut_count = source.offsets.cut_count

    @property
    def lag(self) -> int:
        """The number of offsets by which the copy is behind."""
        return max(0, self.source.log_end_offset - self.target.log_end_offset)

    @property
    def has_more(self) -> bool:
        """Whether there are records below the high watermark to copy."""
        return self.target.log_end_offset < self.source.high_watermark

    def resume(self, now_ms: int) -> None:
        """Truncates a copy from before a restart to what the source still has.

        After a power failure the two may have lost different records. Call this before the source's
        first append, which may reuse lost offsets.
        """
        if self.target.segments.first.base_offset > start_of_copy(self.source):
            self._restart(now_ms)
        else:
            self.target.maintenance.truncate_to(self.source.log_end_offset, now_ms=now_ms)

    def step(self, max_size: int, now_ms: int) -> int:
        """Copies whole batches of up to `max_size` bytes, at least one; returns their size.

        At most MAX_BATCHES are copied, since small batches take time too. Returns 0 once all
        records below the high watermark are copied. Raises `ApiError` for a damaged batch.
        """
        source, target = self.source, self.target
        if self._cut_count != source.offsets.cut_count or self._is_overtaken():
            self._restart(now_ms)
        offset = max(target.log_end_offset, source.local_start_offset)
        if not self.has_more:
            return 0
        limit = min(max_size, target.config.segment_bytes)
        data = source.reader.read(offset, limit, Isolation.HIGH_WATERMARK)
        if data.records is None:
            # Compaction has removed the records at the source's end.
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

    def check(self) -> None:
        """Raises `CorruptionError` if another program has removed or cut a log file of the copy:
        it stays open here, so that nobody has noticed, and the source must not go.
        """
        target = self.target
        segments = target.segments.values
        names = [base_name(one.log.path) for one in segments]
        with target.health.guarding():
            sizes = target.file_system.sizes(target.directory, names)
        for segment, size in zip(segments, sizes, strict=True):
            if size is None or size < segment.log.written_size:
                reason = "another program has removed or cut it"
                raise CorruptionError(segment.log.path, size or 0, reason)

    def _is_overtaken(self) -> bool:
        """Whether the source has deleted records that the copy needs next."""
        end = self.target.log_end_offset
        return end < self.source.local_start_offset and end < start_of_copy(self.source)

    def _restart(self, now_ms: int) -> None:
        """Empties the copy and starts again at the source's current start."""
        self.target.maintenance.truncate_fully_and_start_at(
            start_of_copy(self.source), now_ms=now_ms
        )
        self._cut_count = self.source.offsets.cut_count
