"""Operations on a log's files other than appends and reads: flush, truncate, delete, rename, close.

A background flush is an fsync in three steps, so that the slow one needs no lock: plan, carry out,
finish. The recovery point moves only in the last, after every fsync of the plan has succeeded; a
crash in between leaves it where it was, and recovery checks more than it had to.

A log is cut at its end when it diverged, and at its start when records may go. A crash between two
steps leaves a log that recovery brings to one end: segments after a cut are removed from the last
to the first, so what remains is always a prefix.

Kafka's counterparts: `UnifiedLog.flush`, `truncateTo`, `truncateFullyAndStartAt`,
`maybeIncrementLogStartOffset`, `deleteSegments`, `renameDir`, `close`.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Collection

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem, base_name, join, sync_file
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.abort_check import AbortCheck
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.producer_replay import rebuild_producers
from ottla.storage.log.producer_state import ProducerEntry, ProducerState
from ottla.storage.log.state import LogState
from ottla.storage.log.writer import LogWriter
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_facts import segment_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """Files that hold everything from the recovery point up to `until_offset`."""

    owner: "LogMaintenance"
    directory: str
    flushed_from: int
    until_offset: int
    cut_count: int
    paths: tuple[str, ...]

    def carry_out(self, file_system: FileSystem) -> None:
        """Syncs the files; may run beside appends, in another thread. Raises `OSError`.

        Each file is opened again: the log may close or delete its own meanwhile, and what is gone
        needs no sync.
        """
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                sync_file(file_system, path)
        with contextlib.suppress(FileNotFoundError):
            file_system.sync_directory(self.directory)


class LogMaintenance:
    """`on_cut` is called when the log was cut and its recovery point went back."""

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
            # Recovery will no longer know it by the policy.
            with log.health.guarding(changes_files=True):
                log.integrity.record_gap_checkpoint()

    # Flushed

    def plan_flush(self, until_offset: int) -> FlushPlan | None:
        """What must be synced for `until_offset` to be safe; `None` when it is already."""
        log = self._log
        recovery_point = log.offsets.recovery_point
        if until_offset <= recovery_point:
            return None
        paths = [
            path
            # The one of the last flushed record too: if it has been ended since, its indexes
            # changed.
            for segment in log.segments.from_offset(recovery_point - 1)
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
        """The flush that a roll or `flush.ms` has made due, if any.

        Where too many files are open, whatever was written is due: without it they may not be
        closed.
        """
        log = self._log
        # The log may have been cut since it rolled.
        rolled_until = min(log.rolled_until, log.log_end_offset)
        if rolled_until > log.offsets.recovery_point:
            return self.plan_flush(rolled_until)
        if log.high_watermark > log.offsets.recovery_point and (
            is_short_of_files or monotonic_ms - log.last_flush_ms >= log.config.flush_ms
        ):
            return self.plan_flush(log.high_watermark)
        return None

    def finish_flush(self, plan: FlushPlan, monotonic_ms: float) -> None:
        """Moves the recovery point, unless the log was cut since: what is there now may be new."""
        log = self._log
        if log.offsets.cut_count == plan.cut_count:
            log.offsets.flushed(plan.until_offset)
            active = log.segments.active
            for segment in log.segments.from_offset(plan.flushed_from):
                # What the active segment has taken since is not on the disk yet.
                if segment is not active or log.log_end_offset == plan.until_offset:
                    segment.synced()
        log.last_flush_ms = monotonic_ms

    # Cut at its end

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Removes every batch that reaches `offset` or beyond; returns whether there was any.

        Raises `StorageError`.
        """
        log = self._log
        self._writer.write_out()
        if offset >= log.log_end_offset:
            # A leader that appended nothing has left its epoch at the end, and no other log has it.
            with log.health.guarding(changes_files=True):
                log.epochs.truncate_from_end(offset)
            return False
        if offset <= log.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        with log.health.guarding(changes_files=True):
            self._remove([one for one in log.segments.values if one.base_offset > offset])
            # A later segment that came back after a cut one would make one log of two histories.
            log.sync_directory()
            log.segments.active.truncate_to(offset)
            # The indexes too: rolled from here, the segment would end below the recovery point,
            # and nothing would compare with it what a power failure puts back into them.
            log.segments.active.sync()
            end = log.segments.active.next_offset()
            log.epochs.truncate_from_end(end)
            log.offsets.truncated(end)
            log.integrity.cut(end, min(log.integrity.tight_from, end))
            rebuild_producers(
                log.producers,
                log.snapshots,
                log.segments,
                log_start_offset=log.log_start_offset,
                until_offset=end,
            )
            log.producers.high_watermark_moved(log.high_watermark)
            log.offsets.first_unstable_offset = log.producers.first_unstable_offset
            log.offsets.check()
            self._keep_cut()
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Empties the log; it continues at `offset`. Raises `StorageError`."""
        log = self._log
        self._writer.write_out()
        with log.health.guarding(changes_files=True):
            self._remove(log.segments.values)
            log.epochs.clear()
            for snapshot in list(log.snapshots.offsets):
                log.snapshots.remove(snapshot)
            # Last, or what is still there of the old log would be taken for the new one's.
            log.segments.add(log.open_segment(offset, now_ms, create=True))
            log.producers.clear(offset)
            log.offsets.restarted(offset)
            log.integrity.cut(offset, offset)
            self._keep_cut()

    def _keep_cut(self) -> None:
        """Makes what was removed stay removed, before anything is written in its place.

        A producer snapshot of the old history would be taken for one of the new, and a recovery
        point from before the cut would vouch for batches that were never flushed.
        """
        self._log.sync_directory()
        self._on_cut()

    def _remove(self, segments: Collection[Segment]) -> None:
        """Deletes segments, the last first."""
        for segment in reversed(tuple(segments)):
            self._log.segments.remove([segment])
            segment.delete()

    # Cut at its start

    def delete_records_before(self, offset: int) -> int:
        """Moves the log's start up to `offset` (-1: the high watermark); returns where it is now.

        Readers see it at once; files go when retention comes by. Raises
        `ApiError(OFFSET_OUT_OF_RANGE)` beyond the high watermark.
        """
        log = self._log
        wanted = log.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= log.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.name}: {wanted} lies beyond the high watermark {log.high_watermark}.",
            )
        if wanted > log.log_start_offset:
            with log.health.guarding(changes_files=True):
                log.offsets.move_log_start(wanted)
                log.epochs.truncate_from_start(wanted)
                log.producers.log_start_moved(wanted)
                log.offsets.first_unstable_offset = log.producers.first_unstable_offset
        return log.log_start_offset

    def delete_segments_below_start(
        self, *, max_count: int | None = None, durably: bool = True
    ) -> list[DeletedSegment]:
        """Takes segments that lie wholly below the log's start out of it, the oldest first.

        The log's start must be on the disk already (the caller's checkpoint), or a crash would
        bring a start back that has no file. Never the active segment. The caller removes the files,
        later. With `durably=False` the caller has more to delete and the renames are not synced
        yet: the start stays in the checkpoint until then, and hides what a crash would bring back.
        Raises `StorageError`.
        """
        log = self._log
        with log.health.guarding(changes_files=True):
            gone = log.segments.wholly_below(log.log_start_offset)[:max_count]
            if not gone:
                return []
            log.segments.remove_oldest(len(gone))
            log.integrity.removed_before(log.segments.first.base_offset)
            deleted = [self._put_aside(one) for one in gone]
            # The next checkpoint leaves out a start that the first file's name says.
            log.offsets.is_front_unsynced = True
            if durably:
                log.sync_directory()
                log.offsets.is_front_unsynced = False
        return deleted

    def _put_aside(self, segment: Segment, *, is_replaced: bool = False) -> DeletedSegment:
        """The producer snapshot of its start stays where another segment begins there."""
        log = self._log
        snapshot = None if is_replaced else log.snapshots.retire(segment.base_offset)
        return DeletedSegment(log.file_system, segment, snapshot)

    # Compacted; the caller has `guarding` and the order of steps (`compaction/replacement.py`)

    def leave_gaps_below(self, replaced: Collection[int]) -> None:
        """Lets compaction have the segments up to the last of some, all of which are flushed."""
        log = self._log
        end = log.segments.values[log.segments.floor_index(max(replaced)) + 1].base_offset
        assert end <= log.offsets.recovery_point, "an unflushed segment is compacted"
        # Before there is a gap: a reader that finds one goes by it (`KnownLosses`).
        log.integrity.open_gaps(end, replaced)

    def retire(self, base_offsets: Collection[int], by: Collection[int]) -> list[DeletedSegment]:
        """Takes segments out of the log; others, which begin at `by`, replace them."""
        log = self._log
        gone = [one for one in log.segments.values if one.base_offset in base_offsets]
        log.segments.remove(gone)
        return [self._put_aside(one, is_replaced=one.base_offset in by) for one in gone]

    def adopt(self, base_offset: int, now_ms: int) -> None:
        """Takes a segment into the log whose files are in its directory under their own names."""
        log = self._log
        segment = log.open_segment(base_offset, now_ms)
        log.segments.add(segment)
        facts = segment_facts(log.file_system, segment.log, segment.transaction_index.path)
        log.integrity.placed(base_offset, facts)

    # Copied, and moved to another directory

    def take_over(self, source: LogState) -> None:
        """Copies the rest of the source's state to a copy that has reached the source's end.

        Raises `StorageError`.
        """
        log = self._log
        self.delete_records_before(source.log_start_offset)
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
        log.producers.load(copied_entries(known), end)
        log.offsets.first_unstable_offset = log.producers.first_unstable_offset
        if log.snapshots.offsets and log.snapshots.offsets[-1] == end:
            log.snapshots.remove(end)
        log.snapshots.take(log.producers)

    def renamed(self, directory: str) -> None:
        """Records that the directory was renamed: what is opened from now on is found there.

        A flush that was planned before counts for nothing, for it looked under the old name.
        """
        log = self._log
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
        log.offsets.cut_count += 1

    # Checked for aborts without an entry

    def begin_abort_check(self) -> None:
        log = self._log
        log.abort_check = AbortCheck(
            log.file_system, log.segments, log.integrity, log.log_end_offset
        )
        self.check_aborts()

    def check_aborts(self, *, at_once: bool = False) -> None:
        """Continues with the walk that finds aborts without an entry, a slice or to the end."""
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

    # Closed

    def close(self) -> None:
        """Takes a producer snapshot, trims, flushes and closes; for a clean stop.

        Raises `StorageError`.
        """
        log = self._log
        self._writer.write_out()
        with log.health.guarding():
            log.snapshots.take(log.producers)
            active = log.segments.active
            active.become_inactive()
            log.integrity.ended(active.base_offset, active.transaction_index.path)
            # After a clean stop nothing is recovered, so the indexes must be durable as well.
            self._writer.sync()
            self.abandon()

    def let_go_of_files(self) -> None:
        """Closes what need not be open for now; the next use opens it again."""
        for segment in self._log.segments.values:
            segment.let_go_at_once()

    def abandon(self) -> None:
        """Closes the files without writing anything, as a crash would."""
        for segment in self._log.segments.values:
            segment.close_files()


def copied_entries(producers: ProducerState) -> list[ProducerEntry]:
    """Returns copies of the producer entries, for use by another log."""
    return [
        dataclasses.replace(entry, batches=entry.batches.copy())
        for entry in producers.entries.values()
    ]
