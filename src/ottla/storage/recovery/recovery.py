"""Bringing a partition directory back to a log that can be trusted, in named phases.

1. `clean_temporary_files`: `.deleted` and `.cleaned` go; `.swap` of an unfinished split go too.
2. `finish_swaps`: what compaction had already decided is carried out.
3. `open_segments`: every `.log` becomes a segment; orphaned indexes go; a missing index is rebuilt.
   A segment whose offsets do not fit its indexes is split, and the segments are opened again.
4. `recover_segments`: after an unclean stop every segment from the recovery point is checked batch
   by batch and its indexes rebuilt; segments after damage or a hole are dropped, the last first,
   and then the damage is cut off.
5. `reconcile`: leader epochs and producer state are cut to the log and rebuilt to its end.

Kafka's counterpart: `LogLoader`. Recovering twice changes nothing.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, base_name, join, remove_if_present
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.config.setting import INT32_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.files.filenames import (
    LEADER_EPOCHS,
    MAX_OFFSET,
    FileKind,
    FileName,
    FileSuffix,
    parse_directory_name,
    parse_file_name,
)
from ottla.storage.files.integrity import (
    Integrity,
    IntegrityFile,
    SegmentFacts,
    begins_as,
    checksum_of,
)
from ottla.storage.files.log_file import LogFile
from ottla.storage.log.epoch_replay import StoredEpochs, check_epochs, complete_epochs, read_epochs
from ottla.storage.log.header_check import checked_end
from ottla.storage.log.producer_replay import rebuild_producers, replay_batch
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.log.state import RecoveredLog
from ottla.storage.recovery.damage import end_behind_damage, keep_flushed
from ottla.storage.recovery.missing_segments import (
    name_missing_between,
    name_missing_end,
    name_missing_front,
)
from ottla.storage.recovery.transaction_check import check_transactions
from ottla.storage.segment.log_order import OffsetOverflowError
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_facts import (
    check_first_batch,
    first_checksum,
    known_losses,
)
from ottla.storage.segment.segments import Segments
from ottla.storage.segment.splitting import split_segment

logger = logging.getLogger(__name__)

INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is known of a log before its files are read."""

    file_system: FileSystem
    directory: str
    config: TopicConfig
    now_ms: int
    was_clean_stop: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int | None = None
    """As it was last written down; `None` where it was not."""
    reached: int = 0
    """Where another checkpoint says that the log ended whose recovery point is lost."""
    cleaned_until: int = 0
    """Below it compaction may have left gaps between segments."""
    topic_id: Uuid | None = None
    integrity: Integrity | None = None
    on_progress: Callable[[str], None] = field(default=lambda _: None)


def recover(request: LoadRequest) -> RecoveredLog:
    """Loads a partition directory, repairing what a crash left; raises `OSError` as it comes."""
    loader = _Loader(request)
    try:
        return loader.load()
    except BaseException:
        loader.abandon()
        raise


class _Loader:
    def __init__(self, request: LoadRequest) -> None:
        self._request = request
        self._files = request.file_system
        self._directory = request.directory
        self._segments = Segments()
        self._base_offsets: list[int] = []
        self._wrong_files: list[Segment] = []
        self._epochs = read_epochs(self._files, self._path(LEADER_EPOCHS))
        self._knows_epochs = (
            request.integrity is not None and self._epochs.earliest_epoch is not None
        )
        self._integrity = IntegrityFile(self._files, self._directory, request.integrity)

    def load(self) -> RecoveredLog:
        request = self._request
        self._files.make_directory(self._directory)
        self._finish_swaps(self._clean_temporary_files())
        self._load_segments()
        log_end_offset = self._log_end_offset()
        if self._segments.values and log_end_offset < request.recovery_point:
            name_missing_end(self._segments.active, log_end_offset, request.recovery_point)
        recovery_point = min(request.recovery_point, log_end_offset)
        if request.was_clean_stop and log_end_offset > 0:
            recovery_point = log_end_offset
        if not self._segments.values:
            log_end_offset = self._start_of_empty()
            self._segments.add(self._open_segment(log_end_offset, create=True))
            if log_end_offset > 0:
                # Once its name says the log's start, the next checkpoint does not.
                self._files.sync_directory(self._directory)
        recovered = self._reconcile(log_end_offset, recovery_point)
        self._know_gaps(recovered)
        self._know_integrity(recovered)
        for segment in self._wrong_files:
            segment.close_files()
        return recovered

    def abandon(self) -> None:
        for segment in (*self._segments.values, *self._wrong_files):
            segment.close_files()

    def _path(self, name: str) -> str:
        return join(self._directory, name)

    def _listed(self) -> list[FileName]:
        names = self._files.list(self._directory)
        parsed = (parse_file_name(name) for name in names)
        return [name for name in parsed if name is not None]

    # 1

    def _clean_temporary_files(self) -> list[FileName]:
        """Returns the swap files that stand for finished work (KAFKA-6264)."""
        listed = self._listed()
        cleaned = [one for one in listed if one.suffix is FileSuffix.CLEANED]
        swaps = [one for one in listed if one.suffix is FileSuffix.SWAP]
        least_cleaned = min((one.offset for one in cleaned), default=None)
        unfinished = [
            one for one in swaps if least_cleaned is not None and one.offset >= least_cleaned
        ]
        deleted = [one for one in listed if one.suffix is FileSuffix.DELETED]
        # The swaps go before the cleaned files that betray them as unfinished.
        for one in (*deleted, *unfinished, *cleaned):
            remove_if_present(self._files, self._path(one.text))
        return [one for one in swaps if one not in unfinished]

    # 2

    def _finish_swaps(self, swaps: list[FileName]) -> None:
        logs = [one for one in swaps if one.kind is FileKind.LOG]
        if logs:
            first = min(one.offset for one in logs)
            end = max(self._next_offset_of(one) for one in logs)
            for one in self._listed():
                is_replaced = one.suffix is FileSuffix.LIVE and first <= one.offset < end
                if is_replaced and one.kind is not FileKind.PRODUCER_SNAPSHOT:
                    remove_if_present(self._files, self._path(one.text))
        for one in swaps:
            live = FileName(offset=one.offset, kind=one.kind).text
            self._files.rename(self._path(one.text), self._path(live))
        if swaps:
            self._files.sync_directory(self._directory)

    def _next_offset_of(self, swap: FileName) -> int:
        log = LogFile.open(self._files, self._path(swap.text))
        try:
            next_offset = swap.offset
            for _, header in scan.headers(log):
                next_offset = header.last_offset + 1
            return next_offset
        finally:
            log.close()

    def _load_segments(self) -> None:
        """Opens and recovers the segments, from the start again after one had to be split."""
        while True:
            try:
                self._open_segments()
                self._recover_segments()
                return
            except OffsetOverflowError as overflow:
                self._integrity.split(overflow.base_offset)
                split_segment(self._files, self._directory, overflow.log, overflow.base_offset)
                self.abandon()
                self._segments, self._wrong_files = Segments(), []
                self._finish_swaps(self._clean_temporary_files())

    # 3

    def _open_segments(self) -> None:
        listed = [one for one in self._listed() if one.suffix is FileSuffix.LIVE]
        logs = {one.offset for one in listed if one.kind is FileKind.LOG}
        indexes: dict[int, set[FileKind]] = {offset: set() for offset in logs}
        for one in listed:
            if one.kind in INDEX_KINDS and one.offset not in logs:
                logger.warning("%s has no log beside it and is removed", self._path(one.text))
                remove_if_present(self._files, self._path(one.text))
            elif one.offset in indexes:
                indexes[one.offset].add(one.kind)
        self._base_offsets = sorted(logs)
        recovered_from = self._first_to_recover(self._base_offsets)
        followings = [*self._base_offsets, None][1:]
        for base_offset, following in zip(self._base_offsets, followings, strict=True):
            segment = self._open_segment(base_offset)
            if self._is_wrong_file(segment):
                continue
            self._segments.add(segment)
            # Those to be recovered are left for later: what lies before them may be damaged yet.
            if base_offset >= recovered_from:
                continue
            is_sane = self._has_sane_indexes(segment, indexes[base_offset])
            if not is_sane or (following == recovered_from and not segment.has_true_last_entries()):
                self._recover_segment(segment)
                segment.sync()

    def _first_to_recover(self, base_offsets: list[int]) -> int:
        """The base offset of the segment that holds the recovery point, after an unclean stop."""
        if self._request.was_clean_stop:
            return MAX_OFFSET
        index = bisect_right(base_offsets, self._request.recovery_point) - 1
        return base_offsets[index] if index >= 0 else 0

    def _open_segment(self, base_offset: int, *, create: bool = False) -> Segment:
        return Segment(
            self._files,
            self._directory,
            base_offset,
            config=self._request.config,
            created_ms=self._request.now_ms,
            create=create,
        )

    def _has_sane_indexes(self, segment: Segment, kinds: set[FileKind]) -> bool:
        if FileKind.OFFSET_INDEX not in kinds:
            if self._request.was_clean_stop or segment.base_offset < self._request.recovery_point:
                logger.warning("%s has no offset index; it is rebuilt", segment.log.path)
            return False
        try:
            if FileKind.TIME_INDEX not in kinds:
                return False
            self._check_transaction_index(segment)
            segment.transaction_index.sanity_check()
            check_transactions(segment, self._segments, gaps_before=self._gaps_before)
        except CorruptionError as error:
            logger.warning("%s; the segment's indexes are rebuilt", error)
            return False
        return True

    @property
    def _gaps_before(self) -> int:
        """Before which offset compaction may have taken batches.

        A topic that is no longer compacted was until where the cleaner's checkpoint says, and so
        was one whose settings are not known here.
        """
        return MAX_OFFSET if self._request.config.is_compacted else self._request.cleaned_until

    def _check_transaction_index(self, segment: Segment) -> None:
        """Raises `CorruptionError` for one that does not begin as it did."""
        index = segment.transaction_index
        aborted = self._integrity.of_segment(segment.base_offset).aborted
        if aborted is not None and not begins_as(self._files, index.path, aborted):
            raise CorruptionError(index.path, 0, "it has changed on the disk")

    def _is_wrong_file(self, segment: Segment) -> bool:
        """Whether the file of another segment has come in its place: it is left alone."""
        try:
            check_first_batch(segment.log, self._integrity.of_segment(segment.base_offset))
        except CorruptionError as error:
            logger.error("%s; it is kept, and not served", error)
            self._wrong_files.append(segment)
            return True
        return False

    # 4

    @property
    def _tight_from(self) -> int:
        """The offset after which no segment begins with a gap before it."""
        recorded = self._integrity.known.gap_checkpoint
        return self._gaps_before if recorded is None else recorded

    def _recover_segments(self) -> None:
        if self._request.was_clean_stop:
            return
        unflushed = self._segments.from_offset(self._request.recovery_point)
        end = None
        for done, segment in enumerate(unflushed):
            self._request.on_progress(f"{segment.log.path} ({len(unflushed) - done} left)")
            if end is not None and self._is_hole(unflushed[done - 1], end, segment):
                logger.warning("%s begins after a hole at %d", segment.log.path, end)
                self._drop(unflushed[done:])
                break
            is_whole, end = self._recover_segment(segment, behind=unflushed[done + 1 :])
            if end <= self._request.recovery_point:
                # No later start looks at it again, once the log has rolled.
                segment.sync()
            if not is_whole:
                break

    def _is_hole(self, before: Segment, end: int, segment: Segment) -> bool:
        """Whether the segment before lost its tail, at a batch's end and so without a trace.

        A power failure can take what was written last to one file and keep the next file. Where
        compaction works there are such gaps for good reasons, and `integrity` says from where on
        there are none. Kafka does not look.
        """
        # Below the log's start retention may have taken some, and a crash have brought some back.
        exempt = max(self._tight_from, self._request.log_start_offset)
        if segment.base_offset == end or segment.base_offset <= exempt:
            return False
        if any(before.base_offset < one.base_offset for one in self._wrong_files):
            return False  # what was there may be put back
        # Where the first batch could not have gone into the segment before, that one was split.
        first = scan.header_at(segment.log, 0)
        return first is None or first.last_offset - before.base_offset <= INT32_MAX

    def _know_gaps(self, log: RecoveredLog) -> None:
        """Of a compacted log without the file nobody knows which gaps are holes, nor will after a
        power failure: what has been recovered goes to the disk.
        """
        request = self._request
        is_open = request.config.is_compacted and self._integrity.known.gap_checkpoint is None
        if is_open and log.recovery_point < self._segments.active.base_offset:
            for segment in self._segments.from_offset(log.recovery_point):
                segment.sync()
            self._files.sync_directory(self._directory)
            log.recovery_point = log.log_end_offset
        known = self._integrity.known.gap_checkpoint
        if known is None:
            known = max(log.recovery_point, request.cleaned_until)
        self._integrity.tight_from = min(known, log.log_end_offset)

    def _know_integrity(self, log: RecoveredLog) -> None:
        """Last: what the file then says holds for all that is appended from now on."""
        request = self._request
        self._integrity.loaded(
            Integrity(
                topic_id=request.topic_id,
                partition=_partition_of(self._directory),
                gapless_from=log.log_end_offset,
                # Of a log that begins now there is nothing to look through.
                aborts_are_indexed=not any(one.size for one in self._segments.values),
            ),
            {one.base_offset: self._facts(one) for one in self._segments.values},
            log.log_end_offset,
        )

    def _facts(self, segment: Segment) -> SegmentFacts:
        known = self._integrity.of_segment(segment.base_offset)
        index = segment.transaction_index.path
        aborted = known.aborted
        if aborted is None or not begins_as(self._files, index, aborted):
            is_known = self._integrity.known.aborts_are_indexed
            aborted = checksum_of(self._files, index) if is_known else None
        size = None
        if segment is not self._segments.active:
            size = segment.log.size if known.size is None else known.size
        return SegmentFacts(first_checksum(segment.log), aborted, size)

    def _drop(self, segments: Sequence[Segment]) -> None:
        """Removes the last first: what a crash leaves of the log is then without a hole."""
        for segment in reversed(segments):
            logger.warning("%s follows a cut and is removed", segment.log.path)
            segment.delete()
        self._segments.remove(segments)
        if segments:
            self._files.sync_directory(self._directory)

    def _recover_segment(
        self, segment: Segment, *, behind: Sequence[Segment] = ()
    ) -> tuple[bool, int]:
        """Replays one segment on top of the producer state at its start.

        Cuts off what is damaged, and drops the segments after it. Returns whether nothing was, and
        the offset after the last record.
        """
        snapshots = SnapshotFiles(self._files, self._directory)
        state = ProducerState()
        self._rebuild_producers(state, snapshots, segment.base_offset)
        # A crash further on need not replay the segments before this one again.
        snapshots.take(state)

        known_epoch = self._epochs.latest_epoch
        is_of_known_epochs = True
        taking = StoredEpochs(
            self._epochs,
            scan.header_at(behind[0].log, 0) if behind else None,
            is_complete=self._knows_epochs,
        )

        def on_batch(batch: Batch) -> None:
            nonlocal known_epoch, is_of_known_epochs
            if batch.partition_leader_epoch != known_epoch:
                taking.take(batch, segment.log.path)
                known_epoch = self._epochs.latest_epoch
                if batch.partition_leader_epoch != known_epoch:
                    # Of an earlier one, or it is damaged: `header_check` will show.
                    is_of_known_epochs = False
            replay_batch(state, batch, segment)

        following = bisect_right(self._base_offsets, segment.base_offset)
        limit = [*self._base_offsets, MAX_OFFSET][following]
        valid = segment.recover(
            on_batch, limit, self._gapless_from(segment), self._request.cleaned_until
        )
        if not is_of_known_epochs:
            segment.forget_checks(segment.size)
        damaged = segment.size - valid
        if damaged and self._is_flushed(state.map_end_offset):
            keep_flushed(segment, valid, on_batch)
            damaged = 0
        elif damaged:
            # First, so that a crash in between leaves the damage to be found again.
            self._drop(behind)
            logger.warning("%s: %d damaged bytes are cut off", segment.log.path, damaged)
            segment.log.truncate_to(valid)
        snapshots.take(state)
        return damaged == 0, state.map_end_offset

    def _gapless_from(self, segment: Segment) -> int:
        """From where on no gap can be in a segment: compaction leaves the active one alone."""
        gapless_from = self._integrity.known.gapless_from
        is_active = segment.base_offset == self._base_offsets[-1]
        return MAX_OFFSET if gapless_from is None or not is_active else gapless_from

    def _is_flushed(self, offset: int) -> bool:
        """Whether a batch at an offset was on the disk for good, so that no crash has torn it.

        A recovery point at the log's start may be there only because the start was moved.
        """
        request = self._request
        return request.was_clean_stop or (
            max(offset, request.log_start_offset) < request.recovery_point
        )

    def _log_end_offset(self) -> int:
        """Where the log ends; a log that ends before its recorded start is emptied."""
        self._go_on_after_wrong_file()
        if not self._segments.values:
            return 0
        end = self._end_of_active()
        start = self._request.log_start_offset
        if end >= start:
            return end
        logger.warning(
            "%s ends at offset %d, before its recorded start %d: it is emptied and continues there",
            self._directory, end, start,
        )  # fmt: skip
        self._drop(self._segments.values)
        self._epochs.clear()
        SnapshotFiles(self._files, self._directory).remove_outside(start, start)
        return start

    def _go_on_after_wrong_file(self) -> None:
        """Where the last segment's file is another's, the log continues after all that it holds."""
        if not self._wrong_files:
            return
        last = self._wrong_files[-1]
        if not self._segments.values or self._segments.active.base_offset < last.base_offset:
            end = end_behind_damage(last, self._known_end)
            self._segments.add(self._open_segment(end, create=True))

    @property
    def _known_end(self) -> int:
        """Up to where the log went, whichever checkpoint says so."""
        return max(self._request.recovery_point, self._request.reached)

    @property
    def _least_end(self) -> int:
        """Where the log ended at a clean stop, as two checkpoints say; 0 where none knows."""
        request = self._request
        if not request.was_clean_stop:
            return 0
        if request.high_watermark is None:
            return max(request.recovery_point, request.reached)
        return max(min(request.recovery_point, request.high_watermark), request.reached)

    def _start_of_empty(self) -> int:
        """Where a log begins that has no file: at its start, or where it is known to have ended.

        After a crash that is up to where it was flushed; a log that was just being emptied ended
        before its start.
        """
        request = self._request
        start = request.log_start_offset
        end = self._least_end if request.was_clean_stop else request.recovery_point
        when = "at a clean stop" if request.was_clean_stop else "when it was flushed"
        if request.reached > end:
            end, when = request.reached, "by its high watermark"
        if end <= start:
            return start
        logger.error(
            "%s has no file of its log, and %s it had offsets %d to %d; they are lost, and the log "
            "continues at offset %d",
            self._directory, when, start, end - 1, end,
        )  # fmt: skip
        return end

    def _end_of_active(self) -> int:
        """Where the active segment ends; one whose end is damaged becomes an old one."""
        active = self._segments.active
        known_end = self._request.recovery_point if self._request.was_clean_stop else None
        try:
            end = checked_end(active, known_end)
            if end >= self._least_end:
                return end
            reason = (
                f"the log ends at offset {end}, and at a clean stop it ended at {self._least_end}"
            )
            raise CorruptionError(active.log.path, active.log.size, reason)
        except CorruptionError as error:
            # Also where the end is lost: another record at an offset that was acknowledged would
            # be taken for the one that is gone.
            end = end_behind_damage(active, self._known_end)
            logger.error("%s; it is kept, and the log continues at offset %d", error, end)
            self._segments.add(self._open_segment(end, create=True))
            return end

    # 5

    def _reconcile(self, log_end_offset: int, recovery_point: int) -> RecoveredLog:
        request = self._request
        try:
            self._segments.active.check_last_entry(log_end_offset)
        except CorruptionError as error:
            logger.error("%s; its indexes stay as they are", error)
        self._segments.active.become_active()
        self._name_missing()
        log_start_offset = self._log_start_offset()
        bounds = {"start_offset": log_start_offset, "end_offset": log_end_offset}
        complete_epochs(self._epochs, self._segments, **bounds)
        check_epochs(self._epochs, self._segments, **bounds)
        # In this order an epoch that only begins at the end of an empty log goes at once; in
        # Kafka's it goes at the second start.
        self._epochs.truncate_from_start(log_start_offset)
        self._epochs.truncate_from_end(log_end_offset)
        snapshots = SnapshotFiles(self._files, self._directory)
        snapshots.remove_strays({one.base_offset for one in self._segments.values})
        snapshots.remove_outside(log_start_offset, log_end_offset)
        producers = ProducerState()
        if request.was_clean_stop and not snapshots.offsets:
            # Written by a version without snapshots, or emptied by hand: nobody is remembered.
            producers.clear(log_end_offset)
        else:
            self._rebuild_producers(producers, snapshots, log_end_offset)
        producers.opened()
        snapshots.take(producers)
        return RecoveredLog(
            file_system=self._files,
            directory=self._directory,
            config=request.config,
            segments=self._segments,
            epochs=self._epochs,
            producers=producers,
            snapshots=snapshots,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            integrity=self._integrity,
        )

    def _name_missing(self) -> None:
        """Before the epochs are cut to what is left; Kafka may leave what looks the same."""
        integrity = self._request.integrity
        if integrity is None:
            return
        start = self._request.log_start_offset
        name_missing_front(self._epochs, integrity, self._segments, start)
        files = sorted(
            (*self._segments.values, *self._wrong_files), key=lambda one: one.base_offset
        )
        losses = known_losses(integrity, files, self._gaps_before)
        name_missing_between(self._segments, losses, start)

    def _rebuild_producers(
        self, state: ProducerState, snapshots: SnapshotFiles, until_offset: int
    ) -> None:
        rebuild_producers(
            state,
            snapshots,
            self._segments,
            log_start_offset=self._log_start_offset(),
            until_offset=until_offset,
        )

    def _log_start_offset(self) -> int:
        """Where the log starts: as recorded, unless retention has removed more since."""
        return max(self._request.log_start_offset, self._segments.first.base_offset)


def _partition_of(directory: str) -> TopicPartition | None:
    """Which partition's log a directory is, by its name; a copy that moves is the log's too."""
    name = parse_directory_name(base_name(directory))
    return None if name is None else TopicPartition(name.topic, name.partition)
