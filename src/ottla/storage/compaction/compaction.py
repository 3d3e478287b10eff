"""Compaction as a function: writes `.cleaned` files beside the sealed segments it reads.

The first pass maps each key of the dirty part to its last offset. The second copies all segments up
to the end of the dirty part, without the records that a later record of the same key replaces. The
log itself is not changed; `replacement` does that. A crash leaves `.cleaned` files, which recovery
removes. Kafka's counterpart: `Cleaner.doClean`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, fields

from ottla.base.errors import CorruptionError, OttlaError
from ottla.base.files import Buffer, FileSystem, join
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.storage import scan
from ottla.storage.compaction.grouping import GroupLimits, SegmentSource, group_segments
from ottla.storage.compaction.key_filter import (
    Candidate,
    KeyFilter,
    Retained,
    StoredRecords,
    stored_records,
)
from ottla.storage.compaction.offset_map import OffsetMapTooSmallError
from ottla.storage.compaction.output import CleanedSegments
from ottla.storage.compaction.rebuilding import (
    build_empty,
    build_retained,
    build_retained_messages,
)
from ottla.storage.compaction.transactions import CleanedTransactions
from ottla.storage.compaction.verdict import BatchJudge, LastRecord, Verdict
from ottla.storage.files.filenames import log_file_name
from ottla.storage.index.transaction_index import AbortedTransaction

MAX_GROUP_ROWS = 65_536
"""The approximate number of records in one call of a key filter."""

MAX_GROUP_SIZE = 4 << 20
"""The approximate bytes in one call of a key filter; kept in memory until they are written."""


class StoppedError(OttlaError):
    """Compaction was stopped by `Surroundings.check`; its files are removed."""


class DamagedSegmentError(CorruptionError):
    """A segment cannot be read to its end; `base_offset` is the segment's."""

    def __init__(self, path: str, position: int, reason: str, base_offset: int) -> None:
        super().__init__(path, position, reason)
        self.base_offset = base_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The input of a pass, as values that can be sent to another process.

    `sources` reach from the log's first segment to `end_offset`, where the uncleanable part begins.
    `aborted` are the aborted transactions of that range. Tombstones of formats v0 and v1 are
    removed from segments that were last modified before `old_horizon_ms`. `map_bytes` is the memory
    for keys.
    """

    directory: str
    sources: tuple[SegmentSource, ...]
    first_dirty_offset: int
    end_offset: int
    limits: GroupLimits
    index_interval_bytes: int
    delete_retention_ms: int
    old_horizon_ms: int
    now_ms: int
    map_bytes: int
    load_factor: float
    last_records: Mapping[int, LastRecord] = field(default_factory=dict)
    aborted: tuple[AbortedTransaction, ...] = ()

    def with_ends(self) -> Iterator[tuple[SegmentSource, int]]:
        """Each source with its end, the base offset of the next source."""
        ends = [*(one.base_offset for one in self.sources[1:]), self.end_offset]
        return zip(self.sources, ends, strict=True)

    def groups(self, end_offset: int) -> list[list[SegmentSource]]:
        """Returns the sources up to an offset, grouped by the segment that they become."""
        sources = [one for one in self.sources if one.base_offset < end_offset]
        return group_segments(sources, self.limits, end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """Source segments, and the base offsets (`cleaned`) of the segments that replace them."""

    replaced: tuple[int, ...]
    cleaned: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class CompactionStats:
    """Bytes and records read and kept in the second pass, and keys learnt in the first."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless_records: int = 0
    keys: int = 0

    def plus(self, other: "CompactionStats") -> "CompactionStats":
        names = (field.name for field in fields(self))
        return CompactionStats(
            **{name: getattr(self, name) + getattr(other, name) for name in names}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The log is compacted before `end_offset` once the groups have replaced their sources."""

    groups: tuple[CleanedGroup, ...]
    end_offset: int
    stats: CompactionStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of a pass: the disk, and hooks to throttle, stop and guard it.

    `on_bytes` is called with bytes read or written, and may sleep. `check` raises `StoppedError` to
    stop the pass. `while_making` guards the creation of files against deletion of the log.
    """

    file_system: FileSystem
    on_bytes: Callable[[int], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    while_making: Callable[[], AbstractContextManager[object]] = nullcontext


def compact(plan: CompactionPlan, key_filter: KeyFilter, around: Surroundings) -> CompactionResult:
    """Writes the `.cleaned` files of one pass, durably.

    Raises `DamagedSegmentError`, `OffsetMapTooSmallError`, `StoppedError` and `OSError`; the files
    made so far are removed then.
    """
    end_offset = _Learning(plan, key_filter, around).run()
    copying = Copying(plan, key_filter, around, end_offset, CleanedTransactions(plan.aborted))
    try:
        groups = tuple(copying.run(group) for group in plan.groups(end_offset))
    except BaseException:
        copying.take_back()
        raise
    copying.stats.keys = key_filter.size
    return CompactionResult(groups=groups, end_offset=end_offset, stats=copying.stats)


class SourceReader:
    """The batches of one segment, checked.

    Base offsets are checked too, since no checksum covers them: a wrong base offset would make
    other records of the same keys look replaced.
    """

    def __init__(
        self, directory: str, source: SegmentSource, end_offset: int, around: Surroundings
    ) -> None:
        self._around = around
        self._source = source
        self._end_offset = end_offset
        self._path = join(directory, log_file_name(source.base_offset))

    def batches(self, from_offset: int = 0, *, is_checked: bool = True) -> Iterator[Batch]:
        """Yields the batches that end at `from_offset` or later; their bytes stay valid while a
        batch is referenced.
        """
        file = self._around.file_system.open(self._path)
        try:
            view = file.map(self._source.size)
        finally:
            file.close()
        end = counted = 0
        ascending = scan.Ascending(self._source.base_offset, self._end_offset)
        try:
            for position, batch in scan.batches(view, self._path, checks=(ascending,)):
                if batch.last_offset >= from_offset:
                    if is_checked:
                        scan.run_checks((scan.checksum,), batch, self._path, position)
                    yield batch
                end = position + batch.size
                if end - counted >= MAX_GROUP_SIZE:
                    self._around.check()
                    self._around.on_bytes(end - counted)
                    counted = end
        except CorruptionError as error:
            raise self.damaged(error.position, error.reason) from error
        self._around.check()
        self._around.on_bytes(end - counted)

    def data_batches(
        self, transactions: CleanedTransactions, from_offset: int = 0, *, is_checked: bool = True
    ) -> Iterator[Batch]:
        """Yields the batches with committed records: no markers, and nothing of aborted
        transactions.
        """
        for batch in self.batches(from_offset, is_checked=is_checked):
            if batch.is_control:
                transactions.is_marker_obsolete(batch)
            elif not transactions.is_aborted(batch):
                yield batch

    def damaged(self, position: int, reason: str) -> DamagedSegmentError:
        return DamagedSegmentError(self._path, position, reason, self._source.base_offset)


class _Learning:
    """The first pass."""

    def __init__(self, plan: CompactionPlan, key_filter: KeyFilter, around: Surroundings) -> None:
        self._plan = plan
        self._key_filter = key_filter
        self._around = around
        self._transactions = CleanedTransactions(plan.aborted, plan.first_dirty_offset)
        self._pending: list[Batch] = []
        self._pending_rows = self._pending_size = 0

    def run(self) -> int:
        """Returns the offset up to which every key is known."""
        plan = self._plan
        for source, end in plan.with_ends():
            if source.is_damaged or end <= plan.first_dirty_offset:
                continue
            stopped_at = self._learn(SourceReader(plan.directory, source, end, self._around))
            if stopped_at is not None:
                return stopped_at
        return plan.end_offset

    def _learn(self, source: SourceReader) -> int | None:
        """Returns the base offset of the first batch whose keys do not fit into the map."""
        try:
            for batch in source.data_batches(self._transactions, self._plan.first_dirty_offset):
                if not self._has_room(batch):
                    return batch.base_offset
                self._add(batch)
            self._flush()
        except InvalidBatchError as error:
            raise source.damaged(0, str(error)) from error
        return None

    def _has_room(self, batch: Batch) -> bool:
        """Whether all keys of a batch would fit if they were new.

        The number of keys that are new is not considered, so that all key filters stop at the same
        batch.
        """
        count = self._row_count(batch)
        if self._key_filter.size + self._pending_rows + count > self._key_filter.capacity:
            self._flush()
        if self._key_filter.size + count <= self._key_filter.capacity:
            return True
        if self._key_filter.size == 0:
            raise OffsetMapTooSmallError(count, self._key_filter.capacity)
        return False

    def _add(self, batch: Batch) -> None:
        self._pending.append(batch)
        self._pending_rows += self._row_count(batch)
        self._pending_size += batch.size
        if self._pending_rows >= MAX_GROUP_ROWS or self._pending_size >= MAX_GROUP_SIZE:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        self._pending_rows = self._pending_size = 0
        if pending:
            self._key_filter.learn(pending, self._plan.first_dirty_offset)

    def _row_count(self, batch: Batch) -> int:
        """The number of records to learn; for a wrapper of the old formats, of offsets in it."""
        # The dirty part may begin inside the first batch, and the map has room from there on.
        here = batch.last_offset + 1 - self._plan.first_dirty_offset
        if isinstance(batch, RecordBatch):
            return min(batch.record_count, here)
        return min(batch.last_offset_delta + 1, here)


class Copying:
    """The second pass, or a part of it that begins with the state `transactions`."""

    def __init__(
        self,
        plan: CompactionPlan,
        key_filter: KeyFilter,
        around: Surroundings,
        end_offset: int,
        transactions: CleanedTransactions,
    ) -> None:
        self.stats = CompactionStats()
        self._plan = plan
        self._key_filter = key_filter
        self._around = around
        self._end_offset = end_offset
        self._ends = {source.base_offset: end for source, end in plan.with_ends()}
        self._transactions = transactions
        self._judge = BatchJudge(
            transactions, plan.last_records, end_offset=plan.end_offset, now_ms=plan.now_ms
        )
        damaged = [one.base_offset for one in plan.sources if one.is_damaged]
        # A damaged segment keeps its records. Tombstones after it must be kept too, or the records
        # that they delete would reappear.
        self._tombstones_stay_from = min(damaged, default=None)
        self._made: list[CleanedSegments] = []

    def run(self, group: Sequence[SegmentSource]) -> CleanedGroup:
        """Copies one group, durably."""
        plan = self._plan
        output = CleanedSegments(
            self._around.file_system,
            plan.directory,
            group[0].base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            segment_index_bytes=plan.limits.segment_index_bytes,
            while_making=self._around.while_making,
        )
        self._made.append(output)
        output.begin()
        for source in group:
            self._copy(source, output)
        output.finish(group[-1].modified_ms)
        return CleanedGroup(
            replaced=tuple(source.base_offset for source in group), cleaned=output.base_offsets
        )

    def take_back(self) -> None:
        """Removes the files written so far."""
        for output in self._made:
            output.remove()

    def _copy(self, source: SegmentSource, output: CleanedSegments) -> None:
        pending: list[tuple[Batch, Verdict]] = []
        rows = size = 0
        end_offset = self._ends[source.base_offset]
        reader = SourceReader(self._plan.directory, source, end_offset, self._around)
        old_tombstones_stay = source.modified_ms > self._plan.old_horizon_ms
        try:
            for batch in reader.batches():
                pending.append((batch, self._judge.judge(batch)))
                self._take_retained(output)
                rows += batch.record_count if isinstance(batch, RecordBatch) else 1
                size += batch.size
                if rows >= MAX_GROUP_ROWS or size >= MAX_GROUP_SIZE:
                    self._write(pending, output, old_tombstones_stay)
                    pending, rows, size = [], 0, 0
            self._write(pending, output, old_tombstones_stay)
        except InvalidBatchError as error:
            raise reader.damaged(0, str(error)) from error

    def _take_retained(self, output: CleanedSegments) -> None:
        if self._transactions.retained:
            output.add_aborted(self._transactions.retained)
            self._transactions.retained = []

    def _write(
        self,
        judged: Sequence[tuple[Batch, Verdict]],
        output: CleanedSegments,
        old_tombstones_stay: bool,
    ) -> None:
        candidates = [
            Candidate(batch, self._tombstones_stay(batch, old_tombstones_stay))
            for batch, verdict in judged
            if not verdict.drops_records and not batch.is_control
        ]
        retained = iter(self._key_filter.retain(candidates, self._end_offset))
        for batch, verdict in judged:
            self.stats.bytes_read += batch.size
            if verdict.drops_records:
                left = Retained(records=list, count=0, is_whole=False, has_tombstone=False)
            elif isinstance(batch, RecordBatch) and batch.is_control:
                left = _whole(batch)
            else:
                left = next(retained)
            self._write_batch(batch, verdict, left, output)
        self._around.on_bytes(output.write_out())

    def _tombstones_stay(self, batch: Batch, old_tombstones_stay: bool) -> bool:
        stay_from = self._tombstones_stay_from
        if stay_from is not None and batch.last_offset >= stay_from:
            return True
        if not isinstance(batch, RecordBatch):
            return old_tombstones_stay
        return not self._judge.is_past_horizon(batch)

    def _write_batch(
        self, batch: Batch, verdict: Verdict, left: Retained, output: CleanedSegments
    ) -> None:
        stats = self.stats
        stats.records_read += batch.record_count if isinstance(batch, RecordBatch) else 1
        stats.records_kept += left.count
        stats.keyless_records += left.keyless_count
        content: Buffer | None
        if left.count == 0:
            content = build_empty(batch) if verdict.keeps_empty else None
        elif isinstance(batch, RecordBatch):
            content = self._retained(batch, verdict, left)
        elif left.is_whole:
            content = batch.bytes_view()
        else:
            messages = left.records()
            assert isinstance(messages, list)
            content = build_retained_messages(batch, messages)
        if content is not None:
            stats.bytes_written += len(content)
            output.append(content, batch.last_offset)

    def _retained(self, batch: RecordBatch, verdict: Verdict, left: Retained) -> bytes | memoryview:
        horizon_ms = batch.base_timestamp_ms if batch.has_delete_horizon else None
        begins = horizon_ms is None and (left.has_tombstone or verdict.starts_horizon)
        if begins:
            horizon_ms = self._plan.now_ms + self._plan.delete_retention_ms
        if left.is_whole and not begins:
            return batch.bytes_view()
        records = left.records()
        assert isinstance(records, StoredRecords)
        return build_retained(batch, records, horizon_ms)


def _whole(batch: RecordBatch) -> Retained:
    """Returns a control batch with all its records."""
    return Retained(
        records=lambda: stored_records(batch),
        count=batch.record_count,
        is_whole=True,
        has_tombstone=False,
    )
