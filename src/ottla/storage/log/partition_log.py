"""One partition's log: appends, reads, offsets, rolling, flushing and cutting.

Format pages: docs/format/README.md lists the files of a partition. What a crash can leave is told
where each file is written; `recovery` mends it. Kafka's counterparts: `UnifiedLog`, `LocalLog`.

Appends are visible to readers only after `write_out`, which moves the high watermark: a single
broker is its own only replica, so what the operating system has taken is replicated.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer, FileSlice, FileSystem, base_name, sync_file
from ottla.config.setting import INT32_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Batch
from ottla.storage.files.directory_health import DirectoryHealth, touches_disk
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.abort_check import AbortCheck
from ottla.storage.log.append import (
    NO_TIMESTAMP,
    AppendInfo,
    PreparedRecords,
    check_batches,
    prepare_append,
    stamp_batches,
)
from ottla.storage.log.conversion import AppendTarget
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.epoch_replay import take_epochs
from ottla.storage.log.header_check import HeaderCheck
from ottla.storage.log.offset_by_timestamp import FoundOffset, find_timestamp
from ottla.storage.log.offsets import LogOffsets
from ottla.storage.log.producer_recall import recall_batches
from ottla.storage.log.producer_replay import complete_transaction
from ottla.storage.log.producer_state import AppendOrigin, BatchMetadata, ProducerEntry, take_batch
from ottla.storage.log.rolling import RollLimits, roll_reason, time_waited_ms
from ottla.storage.recovery.recovery import RecoveredLog
from ottla.storage.segment.segment import Segment, TimestampOffset


class Isolation(Enum):
    """Up to where a reader may see (Kafka: `FetchIsolation`)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"


@dataclass(slots=True)
class FetchData:
    """What a read found: whole batches as a slice of a file, and where the log stood.

    `aborted` is `None` unless only committed records were wanted. Not frozen: made so often.
    """

    records: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None


def _nobody_asks() -> None:
    pass


class PartitionLog:
    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        config: TopicConfig,
        recovered: RecoveredLog,
        *,
        health: DirectoryHealth,
        random_below: Callable[[int], int],
    ) -> None:
        self._file_system = file_system
        self.directory = directory
        self.config = config
        self.health = health
        self._random_below = random_below
        self.on_cut: Callable[[], None] = _nobody_asks
        """Called when the log was cut and its recovery point went back (`truncation`)."""
        self._roll_limits = self._new_roll_limits()
        self.last_flush_ms = 0.0
        self.segments = recovered.segments
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.snapshots = recovered.snapshots
        self.seams = recovered.seams
        self.witness = recovered.witness
        # What was ended before a crash may not be on the disk yet.
        self.rolled_until = recovered.segments.active.base_offset
        self.offsets = LogOffsets(
            log_start_offset=recovered.log_start_offset,
            log_end_offset=recovered.log_end_offset,
            recovery_point=recovered.recovery_point,
        )
        self.producers.recall = self._recall
        self.headers = HeaderCheck(self.segments, self.epochs, self.offsets)
        self.write_out()
        self.abort_check: AbortCheck | None = None
        """Set while it is not known whether the transaction indexes are complete."""
        if not self.witness.known.aborts_are_indexed:
            self.abort_check = AbortCheck(file_system, self.segments, self.log_end_offset)
            self.check_aborts()

    @property
    def name(self) -> str:
        """`topic-partition`, the directory's own name."""
        return base_name(self.directory)

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.offsets.last_stable_offset

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs.latest_epoch

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.log.size for segment in self.segments.values)

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        for segment in self.segments.values:
            segment.reconfigure(config)
        self._roll_limits = self._new_roll_limits()
        is_flushed = self.offsets.recovery_point >= self.segments.active.base_offset
        if config.is_compacted and not is_flushed and self.health.failure is None:
            # Recovery will no longer know it by the policy.
            with self.disk():
                self.seams.record()

    # Appending

    def append_as_leader(
        self,
        records: Buffer | PreparedRecords,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        may_defer: bool = False,
    ) -> AppendInfo:
        """Gives the batches their offsets and appends them; `records` may be changed in place.

        `records` must stay as it is until `write_out`. Raises `ApiError` with the code that the
        producer is to see, `StorageError`, and with `may_defer` `LongPreparationError`; a refused
        append leaves the log as it was.
        """
        # `touches_disk`, written out here and in `write_out`: every produced batch comes by.
        if self.health.failure is not None:
            raise self.health.failure
        try:
            if isinstance(records, PreparedRecords):
                batches = records.batches
            else:
                batches = check_batches(records, self.config, origin)
            for batch in batches:
                if batch.producer_id < 0:
                    continue
                known = self.producers.admit(batch, origin)
                if known is not None:
                    return self._duplicate(known)
            end = self.offsets.log_end_offset
            target = AppendTarget(self.config, end, leader_epoch, now_ms, may_defer)
            if isinstance(records, PreparedRecords):
                stamp_batches(batches, target)
                return self._append(records.records, batches, now_ms)
            return self._append(*prepare_append(records, batches, target), now_ms)
        except OSError as error:
            raise self.health.fail(error) from error

    @touches_disk
    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendInfo:
        """Appends batches that carry their offsets already (Kafka: `appendAsFollower`).

        Raises `ApiError` when an offset would go backwards.
        """
        batches = check_batches(records, self.config, AppendOrigin.REPLICATION)
        next_offset = self.offsets.log_end_offset
        has_gap = False
        for batch in batches:
            if batch.base_offset < next_offset:
                raise ApiError(
                    ErrorCode.INVALID_RECORD,
                    f"{self.name}: offset {batch.base_offset} follows {next_offset - 1}.",
                )
            has_gap |= batch.base_offset > next_offset
            next_offset = batch.last_offset + 1
        if has_gap:
            self.witness.leave_gaps()
        return self._append(records, batches, now_ms)

    def _recall(self, entry: ProducerEntry) -> None:
        recall_batches(entry, self.segments, self.offsets.log_start_offset)

    def _duplicate(self, seen: BatchMetadata) -> AppendInfo:
        """A retry is answered with the offsets of the first time, and not written."""
        return AppendInfo(
            seen.first_offset,
            seen.last_offset,
            seen.timestamp_ms if self.config.is_append_time else NO_TIMESTAMP,
            self.offsets.log_start_offset,
            is_duplicate=True,
        )

    def _append(self, records: Buffer, batches: Sequence[Batch], now_ms: int) -> AppendInfo:
        first_offset = batches[0].base_offset
        last_offset = batches[-1].last_offset
        largest = _largest_timestamp(batches)
        size = len(records)
        # What must be opened is opened here: a shortage refuses the append before it has begun.
        segment = self._segment_for(size, first_offset, last_offset, largest.timestamp_ms, now_ms)
        if not segment.log.is_unsynced:
            segment.log.keep_open()
        try:
            take_epochs(self.epochs, batches)
            segment.append(records, last_offset, largest)
            self.offsets.appended(last_offset + 1)
            self._take_producers(batches, segment)
        except OSError as error:
            raise self.health.fail(error, is_half_done=True) from error
        if last_offset + 1 - self.offsets.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendInfo(
            first_offset,
            last_offset,
            now_ms if self.config.is_append_time else NO_TIMESTAMP,
            self.offsets.log_start_offset,
            is_duplicate=False,
        )

    def _take_producers(self, batches: Sequence[Batch], segment: Segment) -> None:
        producers = self.producers
        for batch in batches:
            if batch.producer_id < 0:
                continue
            if not batch.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
                producers.take_data(batch)
                continue
            completed = take_batch(producers, batch)
            if completed is not None:
                complete_transaction(producers, completed, segment)
            self.offsets.first_unstable_offset = producers.first_unstable_offset
        producers.map_end_offset = self.offsets.log_end_offset

    def write_out(self) -> None:
        """Hands pending appends to the operating system, and lets readers see them."""
        if self.health.failure is not None:
            raise self.health.failure
        try:
            self.segments.active.log.write_out()
        except OSError as error:
            raise self.health.fail(error, is_half_done=True) from error
        offsets, producers = self.offsets, self.producers
        offsets.move_high_watermark(offsets.log_end_offset)
        producers.high_watermark_moved(offsets.high_watermark)
        offsets.first_unstable_offset = producers.first_unstable_offset

    # Rolling

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, or a new one when this append would be too much for it."""
        active = self.segments.active
        waited_ms = time_waited_ms(
            now_ms, active.created_ms, active.first_timestamp_ms, timestamp_ms
        )
        if roll_reason(active, self._roll_limits, waited_ms, size, last_offset) is None:
            return active
        # Kafka begins a follower's segment with its first batch. Here it begins where the one
        # before ends, also before a gap, unless that is too far from the batch for an index.
        is_near = last_offset - self.offsets.log_end_offset <= INT32_MAX
        return self.roll(now_ms, base_offset=None if is_near else first_offset)

    @touches_disk
    def roll(self, now_ms: int, *, base_offset: int | None = None) -> Segment:
        """Ends the active segment and starts one at `base_offset` (the log's end by default).

        The ended segment is not flushed here, but is from now on due to be (`flushing.due_flush`),
        unless a gap is left behind it, which must not be taken for a hole (`seams`).
        """
        active = self.segments.active
        start = self.offsets.log_end_offset if base_offset is None else base_offset
        assert start >= self.offsets.log_end_offset
        if start == active.base_offset:
            # KAFKA-6388: an index without room for one entry makes an empty segment look full.
            # Kafka removes it and makes a new one; a crash between would forget where the log is.
            assert active.size == 0, "a segment that holds records cannot be made anew"
            return active
        self.producers.map_end_offset = start
        # An fsync here would hold up every client; the flush that is due now covers the snapshot.
        self.snapshots.take(self.producers, durably=False)
        active.log.write_out()
        active.become_inactive()
        self._keep_aborted(durably=False)
        if start > self.offsets.log_end_offset:
            self._sync_from_recovery_point()
            self.seams.open(start)
            self.seams.record()
        elif self.config.is_compacted or self.seams.recorded is not None:
            self.seams.record()
        segment = self.new_segment(start, now_ms)
        self.segments.add(segment)
        self.rolled_until = start
        self._roll_limits = self._new_roll_limits()
        return segment

    def _keep_aborted(self, *, durably: bool) -> None:
        """Lets a lost or shortened transaction index be told from one that never had more.

        The log has the markers, but to look for them at each start would take a walk over all of
        it; and compaction takes out what an index could be made from.
        """
        active = self.segments.active
        active.witness.keep_aborted(active.transaction_index, durably=durably)

    def leave_gaps_below(self, base_offset: int) -> None:
        """Lets compaction have the segments up to and with one, all of which are flushed."""
        behind = self.segments.floor_index(base_offset) + 1
        end = self.segments.values[behind].base_offset
        assert end <= self.offsets.recovery_point, "an unflushed segment is compacted"
        self.seams.open(end)
        # Before there is a gap: whoever finds one goes by it (`gapless_from`).
        self.seams.record()

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """An empty segment's files; the caller adds it to the log."""
        return self.open_segment(base_offset, now_ms, create=True)

    def open_segment(self, base_offset: int, now_ms: int, *, create: bool = False) -> Segment:
        """A segment whose files lie in the directory; the caller adds it to the log."""
        return Segment(
            self._file_system,
            self.directory,
            base_offset,
            config=self.config,
            created_ms=now_ms,
            create=create,
        )

    def retire(self, segment: Segment, *, is_replaced: bool = False) -> DeletedSegment:
        """Takes the files of a segment that has left the log out of the way.

        The producer snapshot of its start stays where another one begins there.
        """
        snapshot = None if is_replaced else self.snapshots.retire(segment.base_offset)
        segment.witness.dismiss()
        return DeletedSegment(self._file_system, segment, snapshot)

    def disk(self) -> AbstractContextManager[None]:
        """For work of other modules that changes this log's files: see `changes_files`."""
        return self.health.guarding(changes_files=True)

    def _new_roll_limits(self) -> RollLimits:
        """Each segment draws its own jitter, so that logs made together roll apart."""
        config = self.config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        return RollLimits(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms - (self._random_below(jitter_ms) if jitter_ms else 0),
        )

    # Reading

    @touches_disk
    def read(
        self, offset: int, max_size: int, isolation: Isolation, *, min_one_message: bool = True
    ) -> FetchData:
        """Whole batches from the one that holds `offset`, as a slice that a socket can send.

        Raises `ApiError(OFFSET_OUT_OF_RANGE)` before the log's start or behind its end.
        """
        offsets = self.offsets
        if not offsets.log_start_offset <= offset <= offsets.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} holds offsets {offsets.log_start_offset} to "
                f"{offsets.log_end_offset}, not {offset}.",
            )
        bound = self._bound(isolation)
        found = None
        if offset < bound:
            found = self._read_below(bound, offset, max_size, min_one_message)
        aborted = None
        if isolation is Isolation.LAST_STABLE:
            end = self._end_of(found, offset, bound) if found else offset
            aborted = self.aborted_transactions(offset, end)
        return FetchData(
            found,
            offsets.high_watermark,
            offsets.last_stable_offset,
            offsets.log_start_offset,
            aborted,
        )

    def _bound(self, isolation: Isolation) -> int:
        match isolation:
            case Isolation.HIGH_WATERMARK:
                return self.offsets.high_watermark
            case Isolation.LAST_STABLE:
                stable = self.offsets.last_stable_offset
                return stable if self.abort_check is None else min(stable, self.abort_check.bound)
            case Isolation.LOG_END:
                return self.offsets.log_end_offset

    def _read_below(
        self, bound: int, offset: int, max_size: int, min_one_message: bool
    ) -> FileSlice | None:
        for segment in self.segments.from_offset(offset):
            if segment.base_offset >= bound:
                return None
            max_position = self._max_position(segment, bound)
            found = segment.read(offset, max_size, max_position, min_one_message)
            if segment.unchecked_size:
                found = self.headers.sound_part(found, segment, offset)
            if found is not None:
                return found if found.size else None
        return None

    def _max_position(self, segment: Segment, bound: int) -> int:
        """Where in a segment the readable bytes end."""
        if bound == self.offsets.high_watermark or segment is not self.segments.floor(bound):
            return segment.log.written_size
        found = segment.translate(bound)
        return found.position if found else segment.log.written_size

    def _end_of(self, found: FileSlice, offset: int, bound: int) -> int:
        """An offset at or behind the end of what was found, as near as the index tells.

        Kafka: `LocalLog.addAbortedTransactions`.
        """
        segments = self.segments.from_offset(offset)
        index = next(i for i, one in enumerate(segments) if one.log.path == found.file.path)
        behind = segments[index].offset_index.first_at_or_behind(found.position + found.size)
        if behind is None and index + 1 < len(segments):
            behind = segments[index + 1].base_offset
        return bound if behind is None else min(behind, bound)

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range of offsets."""
        aborted: list[AbortedTransaction] = []
        for segment in self.segments.from_offset(offset):
            some, is_complete = segment.transaction_index.collect(offset, upper_bound)
            aborted.extend(some)
            if is_complete:
                break
        return aborted

    def check_aborts(self, *, at_once: bool = False) -> None:
        """Goes on with the walk that finds aborts without an entry, a slice or to the end."""
        check = self.abort_check
        if check is None:
            return
        with self.disk():
            if at_once:
                check.finish()
            else:
                check.advance()
            if check.is_done:
                self.abort_check = None
                if check.is_complete:
                    self.witness.indexed_aborts()

    @touches_disk
    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """See `offset_by_timestamp.find_timestamp`."""
        return find_timestamp(self, timestamp_ms)

    # Durability

    @touches_disk
    def flush(self) -> None:
        """fsyncs all that was appended, and only then moves the recovery point."""
        self.write_out()
        if self.offsets.log_end_offset > self.offsets.recovery_point:
            self._sync_from_recovery_point()

    def _sync_from_recovery_point(self) -> None:
        # The one of the last flushed record too: if it has been ended since, its indexes changed.
        for segment in self.segments.from_offset(self.offsets.recovery_point - 1):
            segment.sync()
        for path in self.snapshots.paths(self.offsets.recovery_point, self.log_end_offset):
            sync_file(self._file_system, path)
        self.sync_directory()
        self.offsets.flushed(self.offsets.log_end_offset)

    def sync_directory(self) -> None:
        """Makes it durable which files there are."""
        self._file_system.sync_directory(self.directory)

    @touches_disk
    def close(self) -> None:
        """Takes a producer snapshot, trims, flushes and closes; for a clean stop."""
        self.write_out()
        self.snapshots.take(self.producers)
        self.segments.active.become_inactive()
        self._keep_aborted(durably=True)
        for segment in self.segments.values:
            segment.witness.sync()
        # After a clean stop nothing is recovered, so the indexes must be durable as well.
        self._sync_from_recovery_point()
        self.abandon()

    def let_go_of_files(self) -> None:
        """Closes what need not be open for now; the next use opens it again."""
        for segment in self.segments.values:
            segment.let_go_at_once()

    def abandon(self) -> None:
        """Closes the files without a word, as a crash would."""
        for segment in self.segments.values:
            segment.close_files()


def _largest_timestamp(batches: Sequence[Batch]) -> TimestampOffset:
    latest = batches[0]
    for batch in batches:
        if batch.max_timestamp_ms > latest.max_timestamp_ms:
            latest = batch
    return TimestampOffset(latest.max_timestamp_ms, latest.last_offset)
