"""Appends to one partition's log: how a produce request flows through storage.

Batches are checked and given their offsets, the active segment is rolled if it is full, and the
bytes are queued in its `LogFile` until `write_out`. That makes them visible to readers: it moves
the high watermark, unless the log has other replicas (`LogState.is_replicated`). `flush` makes them
durable. Kafka's counterparts: `UnifiedLog.append`, `roll` and `flush`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer, sync_file
from ottla.config.setting import INT32_MAX
from ottla.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Batch, RecordBatch
from ottla.storage.log.append import (
    NO_TIMESTAMP,
    AppendInfo,
    PreparedRecords,
    check_batches,
    prepare_append,
    stamp_batches,
)
from ottla.storage.log.append_target import AppendTarget
from ottla.storage.log.epoch_replay import take_epochs
from ottla.storage.log.producer_recall import recall_batches
from ottla.storage.log.producer_replay import complete_transaction
from ottla.storage.log.producer_state import AppendOrigin, BatchMetadata, ProducerEntry, take_batch
from ottla.storage.log.rolling import RollLimits, roll_reason, time_waited_ms
from ottla.storage.log.state import LogState
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset

PRODUCERS_PER_APPEND: Final = 64
"""How many producers each append adds to a snapshot that a roll has begun: 0.1 ms."""


class LogWriter:
    """Appends to a log; nothing else advances the log's end."""

    def __init__(self, log: LogState, random_below: Callable[[int], int]) -> None:
        self._log = log
        self._offsets = log.offsets
        self._segments = log.segments
        self._producers = log.producers
        self._random_below = random_below
        self._roll_limits = self._new_roll_limits()
        self._recall_batches = self._recall

    # Appending

    def append_as_leader(
        self,
        records: Buffer | RecordBatch | PreparedRecords,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        may_defer: bool = False,
    ) -> AppendInfo:
        """Gives the batches their offsets and appends them; `records` may be changed in place.

        The caller must not change `records` before `write_out`. Raises `ApiError` with the code for
        the producer, `StorageError`, and with `may_defer` `LongPreparationError`; a refused append
        does not change the log.
        """
        log = self._log
        # `guarding` inlined here and in `write_out`, as every produced batch runs this.
        if log.health.failure is not None:
            raise log.health.failure
        try:
            if isinstance(records, PreparedRecords):
                batches = records.batches
            else:
                batches = check_batches(records, log.config, origin)
            for batch in batches:
                if batch.producer_id < 0:
                    continue
                known = self._producers.admit(batch, origin, self._recall_batches)
                if known is not None:
                    return self._duplicate(known)
            end = self._offsets.log_end_offset
            target = AppendTarget(log.config, end, leader_epoch, now_ms, may_defer)
            if isinstance(records, PreparedRecords):
                stamp_batches(batches, target)
                return self._append(records.records, batches, now_ms)
            buffer = records.buffer if isinstance(records, RecordBatch) else records
            return self._append(*prepare_append(buffer, batches, target), now_ms)
        except OSError as error:
            raise log.health.fail(error) from error

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendInfo:
        """Appends batches that already have their offsets (Kafka: `appendAsFollower`).

        Raises `ApiError` for an offset before the log's end or an invalid batch, and
        `StorageError`.
        """
        log = self._log
        with log.health.guarding():
            batches = check_batches(records, log.config, AppendOrigin.REPLICATION)
            next_offset = self._offsets.log_end_offset
            has_gap = False
            for batch in batches:
                if batch.base_offset < next_offset:
                    raise ApiError(
                        ErrorCode.INVALID_RECORD,
                        f"{log.name}: offset {batch.base_offset} follows {next_offset - 1}.",
                    )
                has_gap |= batch.base_offset > next_offset
                next_offset = batch.last_offset + 1
            if has_gap:
                log.integrity.leave_gaps()
            return self._append(records, batches, now_ms)

    def skip_to(self, offset: int, *, now_ms: int) -> None:
        """Moves the log's end to a later offset, without records; raises `StorageError`."""
        # For a copy of a log from whose end compaction has removed the records.
        self.roll(now_ms, base_offset=offset)
        self._offsets.appended(offset)
        self.write_out()

    def _recall(self, entry: ProducerEntry) -> None:
        recall_batches(entry, self._segments, self._offsets.local_start_offset)

    def _duplicate(self, seen: BatchMetadata) -> AppendInfo:
        """The result for a retry, with the offsets of the first append; nothing is written."""
        return AppendInfo(
            seen.first_offset,
            seen.last_offset,
            seen.timestamp_ms if self._log.config.is_append_time else NO_TIMESTAMP,
            self._offsets.log_start_offset,
            size=0,
        )

    def _append(self, records: Buffer, batches: Sequence[Batch], now_ms: int) -> AppendInfo:
        log, offsets = self._log, self._offsets
        first_offset = batches[0].base_offset
        last_offset = batches[-1].last_offset
        largest = _largest_timestamp(batches, last_offset)
        size = len(records)
        # Files are opened first, so that a lack of descriptors refuses the append with no change.
        segment = self._segment_for(size, first_offset, last_offset, largest.timestamp_ms, now_ms)
        if not segment.log.is_unsynced:
            segment.log.keep_open()
            if segment.log.size == 0:
                log.integrity.began(segment.base_offset, batches[0].crc)
        try:
            take_epochs(log.epochs, batches)
            segment.append(records, last_offset, largest)
            offsets.appended(last_offset + 1)
            self._take_producers(batches, segment)
        except OSError as error:
            raise log.health.fail(error, is_half_done=True) from error
        if last_offset + 1 - offsets.recovery_point >= log.config.flush_messages:
            self.flush()
        return AppendInfo(
            first_offset,
            last_offset,
            now_ms if log.config.is_append_time else NO_TIMESTAMP,
            offsets.log_start_offset,
            size=size,
        )

    def _take_producers(self, batches: Sequence[Batch], segment: Segment) -> None:
        producers, offsets = self._producers, self._offsets
        if producers.snapshot is not None:
            self._log.snapshots.advance(producers, PRODUCERS_PER_APPEND)
        for batch in batches:
            if batch.producer_id < 0:
                continue
            if not batch.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
                producers.take_data(batch)
                continue
            completed = take_batch(producers, batch)
            if completed is not None:
                complete_transaction(producers, completed, segment)
            offsets.first_unstable_offset = producers.first_unstable_offset
        producers.map_end_offset = offsets.log_end_offset

    # Rolling

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, or a new one if this append does not fit."""
        active = self._segments.active
        waited_ms = time_waited_ms(
            now_ms, active.created_ms, active.first_timestamp_ms, timestamp_ms
        )
        if roll_reason(active, self._roll_limits, waited_ms, size, last_offset) is None:
            return active
        # In Kafka a follower's new segment has the base offset of its first batch. Here it has the
        # end offset of the segment before, unless a gap makes that too far away for an index.
        is_near = last_offset - self._offsets.log_end_offset <= INT32_MAX
        return self.roll(now_ms, base_offset=None if is_near else first_offset)

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> Segment:
        """Starts a new active segment at `base_offset` (the log's end by default).

        The old segment is not flushed, but due for a flush (`LogMaintenance.due_flush`). Before a
        gap it is flushed, so that the gap is not taken for a hole (`integrity`). Raises
        `StorageError`.
        """
        with self._log.health.guarding():
            return self._roll(now_ms, base_offset)

    def _roll(self, now_ms: int, base_offset: int | None) -> Segment:
        log, offsets = self._log, self._offsets
        active = self._segments.active
        start = offsets.log_end_offset if base_offset is None else base_offset
        assert start >= offsets.log_end_offset
        if start == active.base_offset:
            # KAFKA-6388: an index without room for one entry makes an empty segment look full.
            # Kafka replaces the segment; a crash in between would lose the log's end offset.
            assert active.size == 0, "a segment that holds records cannot be replaced"
            return active
        self._producers.map_end_offset = start
        # An fsync here would block every client; the flush that is now due syncs the snapshot.
        log.snapshots.begin(self._producers)
        active.log.write_out()
        active.become_inactive()
        # Records the index's checksum, as recovery cannot always rebuild the index: that takes a
        # scan of the whole log, and compaction removes the batches that it needs.
        log.integrity.ended(active.base_offset, active.transaction_index.path, active.log.size)
        if start > offsets.log_end_offset:
            self.sync()
            log.integrity.open_gaps(start)
        elif log.config.is_compacted or log.integrity.known.gap_checkpoint is not None:
            log.integrity.record_gap_checkpoint()
        segment = log.open_segment(start, now_ms, create=True)
        self._segments.add(segment)
        log.rolled_until = start
        log.roll_count += 1
        self._roll_limits = self._new_roll_limits()
        return segment

    def settings_changed(self) -> None:
        """Applies new settings to the limits of the active segment."""
        self._roll_limits = self._new_roll_limits()

    def _new_roll_limits(self) -> RollLimits:
        """The limits for one segment."""
        # Each segment has its own jitter, so that logs created together roll at different times.
        config = self._log.config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        return RollLimits(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms - (self._random_below(jitter_ms) if jitter_ms else 0),
        )

    # Writing and flushing

    def write_out(self) -> None:
        """Writes pending appends and makes them visible to readers; raises `StorageError`."""
        log = self._log
        health = log.health
        if health.failure is not None:
            raise health.failure
        try:
            self._segments.active.log.write_out()
        except OSError as error:
            raise health.fail(error, is_half_done=True) from error
        offsets, producers = self._offsets, self._producers
        end = offsets.log_end_offset
        log.written_end.store(end)
        if log.is_replicated:
            return
        # `move_high_watermark` inlined, as every round runs this for each of its partitions.
        offsets.move_high_watermark(end)
        producers.high_watermark_moved(offsets.high_watermark)
        offsets.first_unstable_offset = producers.first_unstable_offset

    def move_high_watermark(self, offset: int) -> None:
        """Moves the high watermark forward, at most to the log's end; never back."""
        offsets, producers = self._offsets, self._producers
        offsets.move_high_watermark(offset)
        producers.high_watermark_moved(offsets.high_watermark)
        offsets.first_unstable_offset = producers.first_unstable_offset

    def flush(self) -> None:
        """fsyncs all appends, and then moves the recovery point.

        Raises `StorageError`.
        """
        self.write_out()
        if self._offsets.log_end_offset > self._offsets.recovery_point:
            with self._log.health.guarding():
                self.sync()

    def sync(self) -> None:
        """fsyncs everything written after the recovery point, and moves it; raises `OSError`."""
        log, offsets = self._log, self._offsets
        # From the last flushed record's segment: a roll since has changed its indexes.
        for segment in self._segments.from_offset(offsets.recovery_point - 1):
            segment.sync()
        for path in log.snapshots.paths(offsets.recovery_point, offsets.log_end_offset):
            sync_file(log.file_system, path)
        log.sync_directory()
        offsets.flushed(offsets.log_end_offset)


def _largest_timestamp(batches: Sequence[Batch], last_offset: int) -> TimestampOffset:
    latest = batches[0]
    if len(batches) == 1:  # the common case, for speed
        return TimestampOffset(latest.max_timestamp_ms, last_offset)
    for batch in batches:
        if batch.max_timestamp_ms > latest.max_timestamp_ms:
            latest = batch
    return TimestampOffset(latest.max_timestamp_ms, latest.last_offset)
