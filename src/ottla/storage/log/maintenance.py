"""Operations on a log's files other than appends and reads: flush, truncate, delete, rename, close.

A background flush has three steps, plan, carry out and finish, so that the slow one needs no lock.
The recovery point moves only in the last step, after every fsync of the plan has succeeded. After a
crash in between, recovery checks more than necessary.

A log is truncated at its end when it has diverged, and at its start when records are deleted. At
its end, segments are removed from the last to the first, so a crash in between always leaves a
prefix of the log.

Kafka's counterparts: `UnifiedLog.flush`, `truncateTo`, `truncateFullyAndStartAt`,
`maybeIncrementLogStartOffset`, `deleteSegments`, `renameDir`, `close`.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.files import FileSystem, base_name, join, sync_file
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import LEADER_EPOCHS, MAX_OFFSET
from ottla.storage.log.abort_check import AbortCheck
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.producer_replay import rebuild_producers
from ottla.storage.log.producer_state import ProducerEntry, ProducerState
from ottla.storage.log.state import LogState
from ottla.storage.log.writer import LogWriter
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_facts import cleaned_facts, segment_facts

SEGMENTS_PER_FLUSH: Final = 512
"""Their paths are listed in 3 ms, while clients wait; a log rarely has as many to be flushed."""

PRODUCERS_PER_STEP: Final = 1024
"""How many producers are added to a begun snapshot at a time: 2 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """The files to sync so that everything before `until_offset` is durable."""

    owner: "LogMaintenance"
    directory: str
    flushed_from: int
    until_offset: int
    cut_count: int
    paths: tuple[str, ...]

    def carry_out(self, file_system: FileSystem) -> None:
        """Syncs the files; may run in another thread during appends. Raises `OSError`.

        Each file is opened again, as the log may close its own meanwhile. Deleted files are
        skipped.
        """
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                sync_file(file_system, path)
        with contextlib.suppress(FileNotFoundError):
            file_system.sync_directory(self.directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStart:
    """Where a log begins whose earlier segments are in the tier, and its state there.

    `epochs` are those of all that is before `offset`, from the log start on.
    """

    offset: int
    log_start_offset: int
    epochs: Sequence[EpochEntry]
    producers: Sequence[ProducerEntry]


class LogMaintenance:
    """`on_cut` is called after a truncation at the log's end, which may move the recovery point."""

    def __init__(self, log: LogState, writer: LogWriter, on_cut: Callable[[], None]) -> None:
        self._log = log
        self._writer = writer
        self._on_cut = on_cut

    def reconfigure(self, config: TopicConfig) -> None:
        log = self._log
        log.config = config
        for segment in log.segments.values:
            segment.reconfigure(config)
        self._writer.settings_changed()
        is_flushed = log.offsets.recovery_point >= log.segments.active.base_offset
        if config.is_compacted and not is_flushed and log.health.failure is None:
            # Recovery needs it once the policy no longer says that the log had no gaps.
            with log.health.guarding(changes_files=True):
                log.integrity.record_gap_checkpoint()

    # Flushed

    def plan_flush(self, until_offset: int) -> FlushPlan | None:
        """The next flush towards making everything before `until_offset` durable, of
        `SEGMENTS_PER_FLUSH` segments at most; `None` if it is durable.
        """
        log = self._log
        recovery_point = log.offsets.recovery_point
        if until_offset <= recovery_point:
            return None
        # From the last flushed record's segment: a roll since has changed its indexes.
        unsynced = log.segments.from_offset(recovery_point - 1)
        if len(unsynced) > SEGMENTS_PER_FLUSH:
            until_offset = min(until_offset, unsynced[SEGMENTS_PER_FLUSH].base_offset)
            unsynced = unsynced[:SEGMENTS_PER_FLUSH]
        paths = [
            path
            for segment in unsynced
            if segment.base_offset < until_offset
            for path in segment.files()
        ]
        paths += log.snapshots.paths(recovery_point, until_offset)
        return FlushPlan(
            owner=self,
            directory=log.directory,
            flushed_from=recovery_point - 1,
            until_offset=until_offset,
            cut_count=log.offsets.cut_count,
            paths=tuple(paths),
        )

    def due_flush(
        self, monotonic_ms: float, *, is_short_of_files: bool = False
    ) -> FlushPlan | None:
        """The flush that a roll or `flush.ms` has made due, or `None`.

        With `is_short_of_files`, all written records are due, since unsynced files may not be
        closed.
        """
        log, offsets = self._log, self._log.offsets
        if log.health.failure is not None:
            return None
        if log.snapshots.is_begun:
            self.go_on_with_snapshot()
        flushed = offsets.recovery_point
        if offsets.log_end_offset <= flushed:
            return None
        # The log may have been truncated since it rolled.
        rolled_until = min(log.rolled_until, offsets.log_end_offset)
        if rolled_until > flushed:
            return self.plan_flush(rolled_until)
        if offsets.high_watermark > flushed and (
            is_short_of_files or monotonic_ms - log.last_flush_ms >= log.config.flush_ms
        ):
            return self.plan_flush(offsets.high_watermark)
        return None

    def go_on_with_snapshot(self) -> bool:
        """Adds some producers to a snapshot that a roll has begun; returns whether more are left.

        A log that is appended to does so itself.
        """
        log = self._log
        if log.snapshots.is_begun:
            with contextlib.suppress(StorageError), log.health.guarding():
                log.snapshots.advance(log.producers, PRODUCERS_PER_STEP)
        return log.snapshots.is_begun and log.health.failure is None

    def finish_flush(self, plan: FlushPlan, monotonic_ms: float) -> None:
        """Moves the recovery point after `plan` was carried out."""
        # Not if the log was truncated since: other records may have the synced offsets now.
        log = self._log
        if log.offsets.cut_count == plan.cut_count:
            log.offsets.flushed(plan.until_offset)
            active = log.segments.active
            for segment in log.segments.from_offset(plan.flushed_from):
                if segment.base_offset >= plan.until_offset:
                    break
                # Later appends to the active segment are not synced.
                if segment is not active or log.log_end_offset == plan.until_offset:
                    segment.synced()
        log.last_flush_ms = monotonic_ms

    # Truncation at the end

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Removes every batch that ends at `offset` or later; returns whether there was any.

        Below the local start nothing is left here: the log continues at `offset`, and keeps what
        the tier has before that. Raises `StorageError`.
        """
        log = self._log
        self._writer.write_out()
        if offset >= log.log_end_offset:
            # An epoch at the end belongs to a leader without appends; no other replica has it.
            with log.health.guarding(changes_files=True):
                log.epochs.truncate_from_end(offset)
            return False
        has_front = log.log_start_offset < log.local_start_offset
        if offset <= log.segments.first.base_offset or (
            has_front and offset < log.local_start_offset
        ):
            log_start = min(log.log_start_offset, offset) if has_front else None
            self.truncate_fully_and_start_at(offset, now_ms=now_ms, log_start=log_start)
            return True
        with log.health.guarding(changes_files=True):
            log.written_end.store(0)
            self._remove([one for one in log.segments.values if one.base_offset > offset])
            # Before the truncation: a removed segment that a crash brings back must not follow a
            # truncated one, as it belongs to another history.
            log.sync_directory()
            log.segments.active.truncate_to(offset)
            # Also the indexes: if the segment rolls here, it ends before the recovery point, and
            # recovery would not check the entries that a power failure may bring back.
            log.segments.active.sync()
            end = log.segments.active.next_offset()
            log.epochs.truncate_from_end(end)
            log.offsets.truncated(end)
            log.integrity.cut(end, min(log.integrity.tight_from, end))
            rebuild_producers(
                log.producers,
                log.snapshots,
                log.segments,
                log_start_offset=log.local_start_offset,
                until_offset=end,
            )
            log.producers.high_watermark_moved(log.high_watermark)
            log.offsets.first_unstable_offset = log.producers.first_unstable_offset
            log.offsets.check()
            self._keep_cut()
        return True

    def truncate_fully_and_start_at(
        self, offset: int, *, now_ms: int, log_start: int | None = None
    ) -> None:
        """Empties the log; it continues at `offset`. Raises `StorageError`.

        With `log_start`, it starts there: the tier has what is before `offset`, and the leader
        epochs of that stay.
        """
        log = self._log
        self._writer.write_out()
        with log.health.guarding(changes_files=True):
            log.written_end.store(0)
            self._remove(log.segments.values)
            if log_start is None:
                log.epochs.clear()
            else:
                log.epochs.truncate_from_end(offset)
                log.epochs.truncate_from_start(log_start)
            log.snapshots.drop(log.producers)
            for snapshot in list(log.snapshots.offsets):
                log.snapshots.remove(snapshot)
            # After the removal, so that a crash in between leaves no old files in the new log.
            log.segments.add(log.open_segment(offset, now_ms, create=True))
            log.producers.clear(offset)
            log.offsets.restarted(offset, log_start)
            log.integrity.cut(offset, offset)
            self._keep_cut()

    def start_from_tier(self, start: TierStart, *, now_ms: int) -> None:
        """Empties the log; it continues where the tier's state of what is before it ends.

        Raises `StorageError`.
        """
        log = self._log
        self.truncate_fully_and_start_at(
            start.offset, now_ms=now_ms, log_start=start.log_start_offset
        )
        with log.health.guarding(changes_files=True):
            # A crash before the last step leaves no epochs: the follower then begins again.
            log.epochs.clear()
            log.producers.load(start.producers, start.offset)
            log.offsets.first_unstable_offset = log.producers.first_unstable_offset
            log.snapshots.take(log.producers)
            log.sync_directory()
            log.epochs.replace(start.epochs)

    def _keep_cut(self) -> None:
        """Makes the removals and the recovery point durable, before anything new is appended."""
        # Otherwise, after a crash, an old producer snapshot would apply to the new history, and
        # the old recovery point would cover new batches that were never flushed.
        self._log.sync_directory()
        self._on_cut()
        self._log.written_end.store(self._log.log_end_offset)

    def _remove(self, segments: Collection[Segment]) -> None:
        """Deletes segments, the last first."""
        # Before: a segment that is listed and is not there counts as lost.
        self._log.integrity.forget_from(
            min((one.base_offset for one in segments), default=MAX_OFFSET)
        )
        for segment in reversed(tuple(segments)):
            self._log.segments.remove([segment])
            segment.delete()

    # Deletion at the start

    def delete_records_before(self, offset: int) -> int:
        """Moves the log start up to `offset` (-1: the high watermark); returns the log start.

        Readers see it at once; retention deletes the files later. Raises
        `ApiError(OFFSET_OUT_OF_RANGE)` for an offset after the high watermark.
        """
        log = self._log
        wanted = log.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= log.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.name}: offset {wanted} is not between 0 and the high watermark "
                f"{log.high_watermark}.",
            )
        if wanted > log.log_start_offset:
            with log.health.guarding(changes_files=True):
                log.offsets.move_log_start(wanted)
                # If a crash keeps the old log start, segments still have their epochs, but of what
                # is in a tier only the file does. A start cuts it.
                is_tiered = log.config.remote_storage_enable
                log.epochs.truncate_from_start(wanted, is_written=not is_tiered)
                log.producers.log_start_moved(wanted)
                log.offsets.first_unstable_offset = log.producers.first_unstable_offset
        return log.log_start_offset

    def leave_to_tier(self, offset: int) -> None:
        """Moves the local start up to `offset`, before which the tier has all of the log.

        Retention deletes the files later. No checkpoint has this start: if a crash brings files
        back, they are what the tier has too. Raises `StorageError`.
        """
        log = self._log
        if offset > log.local_start_offset:
            assert offset <= max(log.offsets.highest_remote_offset + 1, log.log_start_offset)
            with log.health.guarding():
                log.offsets.move_local_start(offset)

    def delete_segments_below_start(
        self, *, max_count: int | None = None, durably: bool = True
    ) -> list[DeletedSegment]:
        """Removes segments that end at or before the local start from the log, oldest first.

        At most `max_count` are removed, and never the active one. The log start must be durable in
        the caller's checkpoint, or a crash would bring back a start without files. The caller
        removes the returned files later. With `durably=False`, for a caller that deletes more, the
        renames are not synced: until they are, the checkpoint keeps the start, and so hides
        segments that a crash brings back. What the tier has, no checkpoint hides, and it need not:
        a file system keeps the order of renames, so that the last of them come back, without a
        hole. Raises `StorageError`.
        """
        log = self._log
        with log.health.guarding(changes_files=True):
            gone = log.segments.wholly_below(log.local_start_offset)[:max_count]
            if not gone:
                return []
            log.snapshots.finish(log.producers)  # or the producers of what goes would be lost
            log.segments.remove_oldest(len(gone))
            # Of what only a tier has, nothing else shows that it was not lost here.
            has_front = log.log_start_offset < log.local_start_offset
            log.integrity.removed_before(log.segments.first.base_offset, durably=has_front)
            deleted = [self._put_aside(one) for one in gone]
            # A checkpoint omits a log start that is the first segment's base offset, but must not
            # before the renames are synced.
            log.offsets.is_front_unsynced = True
            if durably:
                log.sync_directory()
                log.offsets.is_front_unsynced = False
        return deleted

    def _put_aside(self, segment: Segment, *, is_replaced: bool = False) -> DeletedSegment:
        """Renames a segment's files to `.deleted`."""
        # The producer snapshot at its start is kept if the segment that replaces it needs it.
        log = self._log
        snapshot = None if is_replaced else log.snapshots.retire(segment.base_offset)
        return DeletedSegment(log.file_system, segment, snapshot)

    # Compaction; the caller guards and orders these steps (`compaction/replacement.py`)

    def leave_gaps_below(self, replaced: Collection[int], cleaned: Sequence[int]) -> None:
        """Records that there may be gaps up to the end of the last replaced segment, durably.

        `replaced` are the base offsets of the segments, all of which must be flushed. What the
        `.cleaned` files of `cleaned` hold is recorded too, by which a start knows them.
        """
        log = self._log
        end = log.segments.values[log.segments.floor_index(max(replaced)) + 1].base_offset
        assert end <= log.offsets.recovery_point, "an unflushed segment is compacted"
        # Before there is a gap, as readers take a gap that is not recorded for a loss
        # (`KnownLosses`).
        swaps = {one: cleaned_facts(log.file_system, log.directory, one) for one in cleaned}
        log.integrity.open_gaps(end, replaced, swaps)

    def retire(self, base_offsets: Collection[int], by: Collection[int]) -> list[DeletedSegment]:
        """Removes the segments `base_offsets`, which the segments `by` replace; returns them."""
        log = self._log
        gone = [one for one in log.segments.values if one.base_offset in base_offsets]
        log.segments.remove(gone)
        return [self._put_aside(one, is_replaced=one.base_offset in by) for one in gone]

    def adopt(self, base_offset: int, now_ms: int) -> None:
        """Adds a segment to the log whose files are in its directory under their final names."""
        log = self._log
        segment = log.open_segment(base_offset, now_ms)
        log.segments.add(segment)
        facts = segment_facts(log.file_system, segment.log, segment.transaction_index.path)
        log.integrity.placed(base_offset, facts)

    # Copying, and moving to another directory

    def take_over(self, source: LogState) -> None:
        """Takes the rest of the state of `source`, whose batches this log has all copied.

        Raises `StorageError`.
        """
        log = self._log
        self.delete_records_before(source.log_start_offset)
        if source.log_start_offset < source.local_start_offset:
            # Only segments were copied; the tier has what is before them.
            log.offsets.begin_in_tier(source.log_start_offset)
        log.offsets.highest_remote_offset = source.offsets.highest_remote_offset
        log.is_replicated = source.is_replicated
        log.offsets.high_watermark = min(source.high_watermark, log.log_end_offset)
        with log.health.guarding(changes_files=True):
            if log.epochs.entries != source.epochs.entries:
                log.epochs.replace(source.epochs.entries)
            if log.producers.entries != source.producers.entries:
                self._take_producers(source.producers)

    def _take_producers(self, known: ProducerState) -> None:
        log = self._log
        end = log.log_end_offset
        log.snapshots.drop(log.producers)
        log.producers.load(copied_entries(known), end)
        log.offsets.first_unstable_offset = log.producers.first_unstable_offset
        if log.snapshots.offsets and log.snapshots.offsets[-1] == end:
            log.snapshots.remove(end)
        log.snapshots.take(log.producers)

    def renamed(self, directory: str) -> None:
        """Records that the directory was renamed, so that files are opened under the new name."""
        log = self._log
        log.snapshots.finish(log.producers)
        log.directory = directory
        for segment in log.segments.values:
            segment.directory = directory
            for file in (
                *segment.open_indexes,
                segment.transaction_index,
                segment.log,
            ):
                file.renamed(join(directory, base_name(file.path)))
        log.epochs.renamed(join(directory, LEADER_EPOCHS))
        log.snapshots.renamed(directory)
        log.integrity.renamed(directory)
        # A flush that was planned earlier is void, as it skips files that are not found.
        log.offsets.cut_count += 1

    # Aborts without an index entry

    def begin_abort_check(self) -> None:
        log = self._log
        log.abort_check = AbortCheck(log.segments, log.integrity, log.log_end_offset)
        self.check_aborts()

    def check_aborts(self, *, at_once: bool = False) -> None:
        """Continues the scan for aborts without an entry, by one slice or to the end."""
        log = self._log
        check = log.abort_check
        if check is None:
            return
        with log.health.guarding(changes_files=True):
            if at_once:
                check.finish()
            else:
                check.advance()
            if check.is_done:
                log.abort_check = None
                if check.is_complete:
                    log.integrity.indexed_aborts()

    # Closing

    def close(self) -> None:
        """Takes a producer snapshot, trims, flushes and closes, for a clean shutdown.

        Raises `StorageError`.
        """
        log = self._log
        self._writer.write_out()
        with log.health.guarding():
            log.snapshots.take(log.producers)
            active = log.segments.active
            active.become_inactive()
            log.integrity.ended(active.base_offset, active.transaction_index.path)
            # After a clean shutdown nothing is recovered, so the indexes must be durable too.
            self._writer.sync()
            self.abandon()

    def release_files(self) -> None:
        """Closes files that are not in use; the next use opens them again."""
        for segment in self._log.segments.values:
            segment.let_go_at_once()

    def abandon(self) -> None:
        """Closes the files without writing anything, as a crash would."""
        self.abandon_some(0, len(self._log.segments))

    def abandon_some(self, first: int, max_count: int) -> bool:
        """As `abandon`, for up to `max_count` segments from one number on; returns whether others
        follow.
        """
        segments = self._log.segments.values
        for segment in segments[first : first + max_count]:
            segment.close_files()
        return first + max_count < len(segments)


def copied_entries(producers: ProducerState) -> list[ProducerEntry]:
    """Copies of the producer entries, for use by another log."""
    return [
        dataclasses.replace(entry, batches=entry.batches.copy())
        for entry in producers.entries.values()
    ]
