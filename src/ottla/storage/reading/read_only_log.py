"""A snapshot of one partition's log for a process that only reads.

If a broker replaces segments during a read, the read finds them again (`listed_segments`). A tail
that a crash has torn is skipped: the log ends before it. Anything else is damage (`read_damage`): a
bad batch below the recovery point or after a clean shutdown, and a log that ends before its
recovery point. Reads raise at damage, or skip it if the directory was opened with `on_damage`.
Format pages: docs/format/README.md. Kafka has no counterpart.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.files import join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.record import Record, read_records
from ottla.storage import scan
from ottla.storage.damage_scan import ScannedBatch, is_torn_append
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_RECOVERY_POINT,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    partition_directory_name,
)
from ottla.storage.files.integrity import NOTHING_KNOWN, Integrity, read_integrity
from ottla.storage.files.partition_files import PartitionFiles, SegmentFiles
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.index.producer_snapshot import ProducerSnapshotEntry, newest_snapshot
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.transaction_tail import OpenTransaction, TransactionTail, overlapping
from ottla.storage.reading.aborted_reading import (
    ChangedIndexError,
    aborts_without_entry,
    indexed_transactions,
    report_missing_aborts,
)
from ottla.storage.reading.listed_segments import Cursor, ListedSegments
from ottla.storage.reading.lost_offsets import Gaps, LostOffsetsError, lost_front
from ottla.storage.reading.read_damage import (
    Damage,
    KnownEnd,
    LogTail,
    SegmentPlace,
    cut_short,
    damaged_tail,
    lost_segments,
    place_of,
    repair_hint,
    stretches,
    tail_at,
)
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.storage.segment.segment_facts import check_first_batch, first_checksum
from ottla.storage.segment.segment_reader import Region, SegmentReader

if TYPE_CHECKING:
    from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory

logger = logging.getLogger(__name__)

Identity = tuple[Uuid | None, Sequence[EpochEntry]]
"""A topic's id and the leader epochs of a log."""


class Decoded(Protocol):
    """An item that a batch is decoded to, such as a `Record`."""

    @property
    def offset(self) -> int: ...


D = TypeVar("D", bound=Decoded)


class ReadOnlyLog:
    """A partition's log as of its construction; later appends are not seen.

    Reads raise `CorruptionError` for damage, with the repair commands in its reason,
    `ApiError(OFFSET_OUT_OF_RANGE)` for offsets outside the log or deleted by retention during the
    read (`overtaking.ask_log` retries), and `UserError` if the partition is deleted.
    """

    def __init__(
        self,
        directory: "ReadOnlyLogDirectory",
        topic: str,
        partition: int,
        files: PartitionFiles,
        known: KnownEnd,
    ) -> None:
        self.directory = directory
        self._known = known
        self._file_system = directory.file_system
        self.topic = topic
        self.partition = partition
        self.path = join(directory.path, partition_directory_name(topic, partition))
        self._tail_before: TransactionTail | None = None
        self._identity: Identity | None = None
        self._gaps = Gaps(self._file_system, self.path, self._cleaned_until)
        self._segments = ListedSegments(self._file_system, self.path, files)

    @property
    def segments(self) -> list[SegmentFiles]:
        """The segments, ascending; the log may start inside the first and end inside the last."""
        return self._segments.values

    @cached_property
    def topic_id(self) -> Uuid | None:
        """The topic's id; `None` in a directory written by Kafka before 2.8."""
        return read_topic_id(self._file_system, join(self.path, PARTITION_METADATA))

    @cached_property
    def leader_epochs(self) -> LeaderEpochs:
        """The start offset of each leader epoch; raises `CorruptionError`."""
        return LeaderEpochs.read(self._file_system, join(self.path, LEADER_EPOCHS))

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is flushed; the log's end after a clean shutdown."""
        if self.directory.was_stopped_cleanly:
            return self.log_end_offset
        return min(self.log_end_offset, self._checkpointed(CHECKPOINT_RECOVERY_POINT))

    @cached_property
    def log_start_offset(self) -> int:
        lost = self._lost_front()
        return lost.from_offset if lost else max(self._segments.first_offset, self._recorded_start)

    def _lost_front(self) -> Damage | None:
        first = self._segments.first_offset
        is_same_boot = self.directory.is_same_boot
        start = self._recorded_start
        return lost_front(self._file_system, self.path, first, start, is_same_boot=is_same_boot)

    @cached_property
    def _recorded_start(self) -> int:
        return self.directory.log_start(self.topic, self.partition)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch that the log must hold, readable or not."""
        return self._tail.end_offset

    @property
    def readable_end_offset(self) -> int:
        """The log end offset, or the first offset of damage at the end of the log."""
        damage = self._tail.damage
        return self.log_end_offset if damage is None else damage.from_offset

    @cached_property
    def _tail(self) -> LogTail:
        tail = self._look_at_tail()
        if tail.damage is not None:
            # A broker may have started, or rebuilt the partition, after the listing.
            self._known = self.directory.known_end(self.topic, self.partition)
            self.__dict__.pop("_integrity", None)
            self._segments.list_all()
            tail = self._look_at_tail()
        return tail

    def _look_at_tail(self) -> LogTail:
        tail = self._tail_of_files()
        known = self._integrity if self._known.is_complete else None
        missing = known.end_of_missing(one.base_offset for one in self.segments) if known else 0
        if missing <= tail.end_offset:
            return tail
        path, size = self._segments.end_of_files
        lost = lost_segments(path, size, tail.end_offset, missing)
        return LogTail(end_offset=missing, damage=tail.damage or lost)

    def _tail_of_files(self) -> LogTail:
        known = self._known
        reader = self._segments.open_last()
        if reader is None:
            return tail_at(self.log_start_offset, known, self.path, 0)
        with closing(reader):
            tail = reader.tail()
            is_damaged = not tail.is_whole and not is_torn_append(
                reader.log.reader(),
                reader.base_offset,
                tail.position,
                is_complete=known.is_complete,
            )
            if is_damaged or known.is_contradicted_by(tail):
                return damaged_tail(reader, self._place(reader.files), self.log_start_offset)
            least = max(self.log_start_offset, self._segments.files.least_end_offset)
            return tail_at(max(tail.end_offset, least), known, reader.log.path, reader.log.size)

    def _place(self, segment: SegmentFiles) -> SegmentPlace:
        place = place_of(segment, self._segments.files, self._known)
        size = self._size_before(segment) if place.recorded is None else 0
        return replace(place, size=size) if size else place

    def _size_before(self, segment: SegmentFiles) -> int:
        """The recorded size of a log file that is now shorter; otherwise 0."""
        size = 0
        for _ in range(2):
            known = self._integrity.segments if self._integrity else {}
            size = known.get(segment.base_offset, NOTHING_KNOWN).size or 0
            if segment.size >= size:
                return 0
            status = self._file_system.status(segment.log_path)
            if status is None or status.size >= size:
                return 0
            # Compaction may have replaced the segment and its recorded facts.
            del self._integrity
        return size

    @cached_property
    def high_watermark(self) -> int:
        """Records before this offset are replicated; a lower bound while a broker is running.

        A broker checkpoints its high watermarks every five seconds, so the value lags while it is
        running or after it was killed. After a clean shutdown it is the log end offset, and for an
        Ottla broker of a cluster the checkpoint, which is then exact.
        """
        if self.directory.was_stopped_cleanly and not self.directory.has_replicas:
            return self.log_end_offset
        return self.recorded_high_watermark

    @cached_property
    def recorded_high_watermark(self) -> int:
        """The high watermark of the checkpoint, between the log start and end offsets."""
        checkpointed = self._checkpointed(CHECKPOINT_HIGH_WATERMARK)
        return min(max(self.log_start_offset, checkpointed), self.log_end_offset)

    def continue_from(self, before: "ReadOnlyLog") -> None:
        """Takes over the transaction state of an earlier snapshot of the same log.

        Nothing is taken over if the log has changed other than at its end, as a follower's log does
        when it is truncated for a new leader epoch. Nor if the recovery point has passed the
        earlier state: a newer producer snapshot may then be smaller.
        """
        tail: TransactionTail | None = before.__dict__.get("_transactions")
        if (
            tail is not None
            and before._identity is not None
            and before._identity == self._identity_now()
            and self.log_start_offset == before.log_start_offset
            and self.recovery_point < tail.next_offset <= self.log_end_offset
        ):
            self._tail_before = tail.copy()

    def _identity_now(self) -> Identity | None:
        """The values that change if offsets are reassigned; `None` if the epochs are damaged."""
        try:
            return self.topic_id, self.leader_epochs.entries
        except CorruptionError:
            return None

    @cached_property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the log end offset."""
        first_open = self._transactions.first_open_offset
        return self.log_end_offset if first_open is None else first_open

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The transactions without a marker, oldest first."""
        return self._transactions.open_transactions

    @cached_property
    def _transactions(self) -> TransactionTail:
        """The transactions from the newest producer snapshot to the log's end."""
        while True:
            start = self.log_start_offset
            try:
                return self._transaction_tail()
            except ApiError:
                # Retention deleted batches during the walk: start again at the new log start.
                self._segments.list_again()
                self._tail_before = None
                del self.log_start_offset
                if not start < self.log_start_offset <= self.log_end_offset:
                    raise

    def _transaction_tail(self) -> TransactionTail:
        self._identity = self._identity_now()  # before anything is read
        tail = self._tail_before or TransactionTail.from_snapshot(
            self.newest_snapshot(), self.log_start_offset
        )
        for batch in self._headers(tail.next_offset):
            tail.take(batch)
        return tail

    def newest_snapshot(self) -> tuple[int, list[ProducerSnapshotEntry]] | None:
        """The newest usable producer snapshot up to the recovery point, with its offset."""
        return newest_snapshot(
            self._file_system,
            self._segments.files.snapshots,
            checksums=self._integrity.snapshots if self._integrity else {},
            log_start_offset=self.log_start_offset,
            until_offset=self.recovery_point,
        )

    def _headers(self, from_offset: int) -> Iterator[Batch]:
        """The batches up to the log's end; only control batches are sure to have a payload."""
        if self.directory.steps_over_damage:
            yield from self.batches(from_offset)
            return
        cursor, end = Cursor(from_offset), self.log_end_offset
        for reader in self._readers(cursor, end):
            try:
                start = reader.search_start(cursor.offset)
                for position, header in scan.headers(reader.log, start):
                    if header.last_offset >= cursor.offset:
                        is_control = header.is_control
                        yield scan.sound_batch(reader.log, position) if is_control else header
                        cursor.offset = header.last_offset + 1
                    if cursor.offset >= end:
                        return
            except CorruptionError as error:
                raise self._located(error, reader) from error
            self._check_size(reader, cursor.offset)
        self._check_reached(end)

    def _readers(self, cursor: Cursor, until_offset: int) -> Iterator[SegmentReader]:
        for reader in self._segments.readers(cursor, until_offset, self._raise_missing):
            if self._is_of_this_log(reader):
                yield reader

    def _is_of_this_log(self, reader: SegmentReader) -> bool:
        """Whether a segment's first batch matches its recorded checksum.

        On a mismatch raises `CorruptionError`, or reports the damage if damage is skipped.
        """
        try:
            try:
                self._check_first_batch(reader)
            except CorruptionError:
                # Compaction may have replaced the segment and its recorded facts.
                del self._integrity
                self._check_first_batch(reader)
        except CorruptionError as error:
            if self._is_replaced(reader):
                return True
            if not self.directory.steps_over_damage:
                raise
            self.directory.report(
                Damage(
                    path=error.path,
                    position=0,
                    end=reader.files.size,
                    reason=error.reason,
                    from_offset=reader.files.base_offset,
                    until_offset=self._place(reader.files).limit,
                )
            )
            return False
        return True

    def _is_replaced(self, reader: SegmentReader) -> bool:
        """Whether the file name of an open segment now belongs to another file.

        The recorded facts are then about the new file; the open file is still valid to read.
        """
        try:
            now = SegmentReader(self._file_system, reader.files)
        except FileNotFoundError:
            return True
        try:
            return first_checksum(now.log) != first_checksum(reader.log)
        finally:
            now.close()

    def _check_first_batch(self, reader: SegmentReader) -> None:
        integrity = self._integrity
        if integrity is not None:
            base_offset = reader.files.base_offset
            check_first_batch(reader.log, integrity.segments.get(base_offset, NOTHING_KNOWN))

    def headers(self, from_offset: int, until_offset: int) -> Iterator[Batch]:
        """The headers of the batches in [from_offset, until_offset), unchecked.

        Only control batches are sure to have their payload.
        """
        if not self.log_start_offset <= from_offset <= self.log_end_offset:
            raise self._out_of_range(from_offset)
        for batch in self._headers(from_offset):
            if batch.base_offset >= until_offset:
                return
            yield batch

    def regions(
        self, from_offset: int, until_offset: int | None = None, *, size: int | None = None
    ) -> Iterator[Region]:
        """As `batches`, but unparsed, in regions of about `size` bytes (1 MiB by default)."""
        end = self.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        if not self.log_start_offset <= from_offset <= end:
            raise self._out_of_range(from_offset)
        return self._regions(from_offset, until, size)

    def _regions(self, from_offset: int, until_offset: int, size: int | None) -> Iterator[Region]:
        if self.directory.steps_over_damage:
            yield from self._sound_regions(from_offset, until_offset)
            return
        cursor = Cursor(from_offset)
        for reader in self._readers(cursor, until_offset):
            limit = self._place(reader.files).limit
            try:
                for region in reader.regions(
                    cursor.offset, until_offset, size, limit=limit, on_gap=self._gaps.check
                ):
                    yield region
                    cursor.offset = region.next_offset
            except CorruptionError as error:
                cursor.is_replaced = self._segments.list_again()
                if not cursor.is_replaced and isinstance(error, LostOffsetsError):
                    raise
                if not cursor.is_replaced:
                    raise self._located(error, reader) from error
            if cursor.offset < until_offset and not cursor.is_replaced:
                self._check_size(reader, cursor.offset)
        self._check_reached(until_offset)
        self._gaps.check(*self._segments.end_of_files, (cursor.offset, until_offset))

    def _check_size(self, reader: SegmentReader, end_offset: int) -> None:
        """Raises `CorruptionError` if a segment that was read to its end has lost its tail."""
        place = self._place(reader.files)
        if place.size and end_offset < place.limit:
            raise cut_short(reader, place, end_offset).error()

    def _check_reached(self, until_offset: int) -> None:
        """Raises `CorruptionError` if the range reaches damage at the log's end."""
        damage = self._tail.damage
        if damage is not None and until_offset >= damage.from_offset:
            raise damage.error()

    def _sound_regions(self, from_offset: int, until_offset: int) -> Iterator[Region]:
        """One region for each sound batch; reports the damage between them."""
        lost = self._lost_front()
        if lost is not None and from_offset < lost.until_offset:
            self.directory.report(lost)
            from_offset = lost.until_offset
        cursor, due = Cursor(from_offset), from_offset
        for reader in self._readers(cursor, until_offset):
            for one in stretches(reader, self._place(reader.files)):
                if isinstance(one, Damage):
                    if one.from_offset < until_offset and one.until_offset > from_offset:
                        self.directory.report(one)
                    due = max(due, one.until_offset)
                elif (
                    one.batch.last_offset >= cursor.offset and one.batch.base_offset < until_offset
                ):
                    self._report_gap(reader.log.path, one, due)
                    due = cursor.offset = one.batch.last_offset + 1
                    data = one.batch.bytes_view()
                    yield Region(reader.log.path, one.position, data, due)
        damage = self._tail.damage
        if damage is not None and (not self.segments or until_offset >= damage.from_offset):
            self.directory.report(damage)

    def _report_gap(self, path: str, found: ScannedBatch, due_offset: int) -> None:
        batch = found.batch
        if batch.magic < 2 or batch.base_offset <= due_offset:
            return
        damage = self._gaps.damage(path, found.position, (due_offset, batch.base_offset))
        if damage is not None:
            self.directory.report(damage)

    def lost_parts(self) -> Iterator[Damage]:
        """The lost parts of the log that are found without reading its batches."""
        front, tail = self._lost_front(), self._tail.damage
        yield from () if front is None else (front,)
        yield from self._gaps.lost_segments()
        yield from () if tail is None else (tail,)

    def damage_at(self, path: str, position: int, reason: str) -> CorruptionError:
        """The error for a bad batch in one of `regions`."""
        error = CorruptionError(path, position, reason)
        for segment in self.segments:
            if segment.log_path == path:
                try:
                    with closing(SegmentReader(self._file_system, segment)) as reader:
                        return self._located(error, reader)
                except FileNotFoundError:
                    return error
        return error

    def _located(self, error: CorruptionError, reader: SegmentReader) -> CorruptionError:
        """The error with the unreadable offsets and the repair commands in its reason."""
        for one in stretches(reader, self._place(reader.files)):
            if isinstance(one, Damage) and one.end > error.position:
                return one.error()
        reason = f"{error.reason}; {repair_hint(self.directory.path)}"
        return CorruptionError(error.path, error.position, reason)

    def batches(self, from_offset: int, until_offset: int | None = None) -> Iterator[Batch]:
        """The batches with offsets in [from_offset, until_offset), each checked.

        The first batch may begin before the range, and the last one end after it. The range is cut
        at the log's end.
        """
        regions = self.regions(from_offset, until_offset)
        return (batch for region in regions for _, batch in self.checked_batches(region))

    def checked_batches(self, region: Region) -> Iterator[tuple[int, Batch]]:
        """The batches of one of `regions`, each with its position; raises `CorruptionError`."""
        checks = (scan.checksum,)
        try:
            yield from scan.batches(region.data, region.path, region.position, checks=checks)
        except CorruptionError as error:
            raise self.damage_at(error.path, error.position, error.reason) from error

    def records(
        self, from_offset: int, until_offset: int | None = None, *, read_committed: bool = False
    ) -> Iterator[Record]:
        """The records with offsets in [from_offset, until_offset), without control records.

        With `read_committed`, the range ends at the last stable offset, and records of aborted
        transactions are left out, as for a consumer with that isolation level.
        """
        return self.decoded(read_records, from_offset, until_offset, read_committed=read_committed)

    def decoded(
        self,
        decode: Callable[[Batch], Iterator[D]],
        from_offset: int,
        until_offset: int | None = None,
        *,
        read_committed: bool = False,
    ) -> Iterator[D]:
        """As `records`, but each batch is decoded by `decode`."""
        end = self.last_stable_offset if read_committed else self.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        aborted = self.aborted_transactions(from_offset, until) if read_committed else []
        regions = self.regions(from_offset, until)
        return self._decoded(decode, regions, (from_offset, until), aborted)

    def _decoded(
        self,
        decode: Callable[[Batch], Iterator[D]],
        regions: Iterable[Region],
        offsets: tuple[int, int],
        aborted: list[AbortedTransaction],
    ) -> Iterator[D]:
        ranges = AbortedRanges(aborted)
        for region in regions:
            for position, batch in self.checked_batches(region):
                if batch.is_control or ranges.covers(batch):
                    continue
                try:
                    for record in decode(batch):
                        if offsets[0] <= record.offset < offsets[1]:
                            yield record
                except InvalidBatchError as error:
                    damage = self._unreadable(region.path, position, batch, str(error))
                    if not self.directory.steps_over_damage:
                        raise damage.error() from error
                    self.directory.report(damage)

    def undecodable(self, region: Region, reason: str) -> Damage:
        """The damage of a region of which a batch cannot be decoded: that batch.

        Raises `CorruptionError` if a checksum is wrong.
        """
        for position, batch in self.checked_batches(region):
            try:
                for _ in read_records(batch):
                    pass
            except InvalidBatchError as error:
                return self._unreadable(region.path, position, batch, str(error))
        size, until = len(region.data), region.next_offset
        return Damage(
            path=region.path,
            position=region.position,
            end=region.position + size,
            reason=reason,
            from_offset=until,
            until_offset=until,
        )

    def _unreadable(self, path: str, position: int, batch: Batch, reason: str) -> Damage:
        """The damage of a batch with a valid CRC whose records cannot be decoded."""
        return Damage(
            path=path,
            position=position,
            end=position + batch.size,
            reason=reason,
            from_offset=batch.base_offset,
            until_offset=batch.last_offset + 1,
        )

    def aborted_transactions(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap with a range, in the order in which they ended.

        The list is complete up to the last stable offset: open transactions have no outcome yet.
        """
        integrity = self._integrity
        try:
            found = self._indexed(integrity, from_offset, until_offset)
        except ChangedIndexError as error:
            # Compaction may have replaced the index and its recorded checksum.
            del self._integrity
            integrity = self._integrity
            try:
                found = self._indexed(integrity, from_offset, until_offset)
            except ChangedIndexError:
                logger.warning("%s; using the abort markers in the log", error)
                return self._aborted_by_markers(from_offset, until_offset)
        offsets = from_offset, until_offset
        missing: list[AbortedTransaction] = []
        if integrity is None or not integrity.aborts_are_indexed:
            missing = aborts_without_entry(self._headers(from_offset), found, offsets)
            report_missing_aborts(
                missing, self.segments, is_tolerated=self.directory.steps_over_damage
            )
        return overlapping([*missing, *found], *offsets)

    def _indexed(
        self, integrity: Integrity | None, from_offset: int, until_offset: int
    ) -> list[AbortedTransaction]:
        found = list(self._transactions.aborted)
        offsets = from_offset, until_offset
        before: list[str] | None = None
        while self._has_transaction_index(integrity) and before != (
            listed := [segment.log_path for segment in self.segments]
        ):
            # An index deleted with its segment during this loop was read as empty: read again.
            before = listed
            segments = self._segments.from_offset(from_offset)
            found += indexed_transactions(self._file_system, segments, integrity, offsets)
            self._segments.list_again()
        return found

    def _has_transaction_index(self, integrity: Integrity | None) -> bool:
        """Whether a transaction index exists, or is recorded in the integrity file."""
        facts = integrity.segments.values() if integrity else ()
        return self._segments.files.has_transaction_index or any(
            one.aborted is not None and one.aborted[0] for one in facts
        )

    def _aborted_by_markers(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of a range by the markers in the log."""
        # From the log's start, since an aborted transaction may have begun before the range.
        start, known = self.log_start_offset, self._transactions.aborted
        found = aborts_without_entry(self._headers(start), known, (start, until_offset))
        return overlapping([*found, *known], from_offset, until_offset)

    @cached_property
    def _integrity(self) -> Integrity | None:
        return read_integrity(self._file_system, self.path)

    def _cleaned_until(self) -> int:
        return self._checkpointed(CHECKPOINT_CLEANER)

    def _checkpointed(self, name: str) -> int:
        return self.directory.checkpointed(name).get(TopicPartition(self.topic, self.partition), 0)

    def _raise_missing(self, offset: int) -> NoReturn:
        """Raises the error for an offset that no segment holds: it is lost, or was deleted."""
        lost = self._lost_front()
        if lost is not None and offset >= lost.from_offset:
            raise lost.error()
        raise self._out_of_range(offset)

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in {self.path}, which has "
            f"{max(self._segments.first_offset, self.log_start_offset)} to {self.log_end_offset}",
        )
