"""Checks that a table with the latest row of each key matches its log.

Reads the log again up to the loaded offsets and keeps the last record of each key, record by
record, unlike a merge. Quarantined records are left out. Rows whose records were removed by
retention or compaction cannot be compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.loading.auditing.report import Difference
from ottla.loading.deletes import deletes_of
from ottla.loading.row_comparison import first_difference, stored_rows
from ottla.loading.value_comparison import wrong_values
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogPartition, LogSource, read_ranges
from ottla.tables import (
    IS_DELETED,
    MERGE_KEY,
    RANK,
    Action,
    ChangeMaker,
    DataFile,
    FileRole,
    ForgottenPlaces,
    LedgerEntry,
    Piece,
    RowBuilder,
    RowOrder,
    Table,
    keyed_rows,
    rows_only,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Offsets = np.ndarray[Any, Any]

_COLUMNS = ("key", "value", "offset", "timestamp_ms", "timestamp_type", "headers")


def check_merges(entries: Sequence[LedgerEntry], files: Iterable[DataFile]) -> list[Difference]:
    """Compares the row count with the counts of the commits, if every commit has them."""
    merged = [
        entry.merged for entry in entries if entry.partitions or entry.action is Action.FORGET
    ]
    if None in merged:
        return []
    stated = sum(one.upserted - one.superseded for one in merged if one is not None)
    found = sum(file.row_count for file in rows_only(files))
    if found == stated:
        return []
    return [Difference(kind="count", text=f"the table has {found} rows, {stated} expected")]


class KeyRecord(NamedTuple):
    """A record of a key: its rank, its place, and whether it deletes the row."""

    rank: Any
    partition: int
    offset: int
    is_deleted: bool

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(slots=True)
class StateAudit:
    """The audit of the partitions whose keys are compared; `offered` are the ranges that the log
    has, by partition.
    """

    table: Table
    log: LogSource
    topic: str
    offered: Mapping[int, LogPartition]
    login: RegistryLogin | None = None
    is_compacted: bool = False
    """Whether the log may lack the record of any row: such rows are not compared."""
    rows_compared: int = 0
    _last: dict[bytes, KeyRecord] = field(default_factory=dict)
    _truncated: int = -1
    _forgotten: set[tuple[int, int]] = field(default_factory=set)
    """Partition and offset of rows that were deleted on purpose."""
    _left: "dict[int, list[Offsets]]" = field(default_factory=dict)
    """Of a compacted log the offsets of its records, by partition."""

    def differences(
        self, pieces: Mapping[int, Sequence[Piece]], files: Sequence[DataFile]
    ) -> Iterator[Difference]:
        """Yields missing, duplicate and superfluous rows.

        Raises `OffsetsGoneError` if the log loses records meanwhile.
        """
        layout = self.table.layout()
        assert layout.order is not None
        maker = ChangeMaker(order=layout.order, deletes=deletes_of(layout))
        places = ForgottenPlaces(self.table.files, files)
        for number, some in pieces.items():
            quarantined = self._quarantined(files, number)
            quarantined |= set(places.of_quarantine(number).tolist())
            self._forgotten |= {(number, offset) for offset in places.of_rows(number).tolist()}
            for piece in some:
                wanted = self._offered_of(number, piece.offsets)
                if not wanted.is_empty:
                    builder = RowBuilder(
                        self.topic, layout.record_decoding_of(piece.commit_id), self.login
                    )
                    self._follow(number, wanted, _Replay(builder, maker, quarantined))
        ends = {number: some[-1].until_offset for number, some in pieces.items() if some}
        yield from self._compare(files, maker.order, ends)

    def _quarantined(self, files: Sequence[DataFile], partition: int) -> set[int]:
        return {
            offset
            for file in files
            if file.role is FileRole.QUARANTINE and file.partition == partition
            for offset in self.table.files.offsets(file).tolist()
        }

    def differences_of_rows(self, file: DataFile) -> Iterator[Difference]:
        """Compares the rows of a file with their records."""
        # Rows beyond the log's end are those of another program, as `differences` says.
        until = min(file.last_offset + 1, self.offered[file.partition].end_offset)
        wanted = self._offered_of(
            file.partition, OffsetRange(from_offset=file.first_offset, until_offset=until)
        )
        if wanted.is_empty:
            return
        import pyarrow.compute as pc

        place = TopicPartition(self.topic, file.partition)
        stored = stored_rows(self.table.files, [file], wanted)
        log = read_ranges(self.log, {place: wanted}, stored.column_names)
        log = log.filter(pc.is_in(log["offset"], stored["offset"].combine_chunks()))
        stored = stored.filter(pc.is_in(stored["offset"], log["offset"].combine_chunks()))
        self.rows_compared += stored.num_rows
        found = first_difference(stored, log)
        if found is not None:
            yield Difference.in_row(file.partition, *found, file.path)
            return
        for offset, text in wrong_values(self.table, file, self.log, place, wanted, self.login):
            yield Difference.in_row(file.partition, offset, text, file.path)

    def _offered_of(self, partition: int, wanted: OffsetRange) -> OffsetRange:
        start = max(wanted.from_offset, self.offered[partition].start_offset)
        return OffsetRange(from_offset=start, until_offset=max(start, wanted.until_offset))

    def _follow(self, partition: int, wanted: OffsetRange, replay: "_Replay") -> None:
        place = TopicPartition(self.topic, partition)
        for split in self.log.splits({place: wanted}):
            for batch in self.log.read(split, _COLUMNS):
                self._apply(batch, partition, replay)

    def _apply(self, batch: "pa.RecordBatch", partition: int, replay: "_Replay") -> None:
        if self.is_compacted:
            self._left.setdefault(partition, []).append(batch["offset"].to_numpy())
        rows, decoded = replay.builder.rows(batch, partition)
        columns = replay.maker.changes(rows, decoded.truncations, len(self.offered)).columns
        found = zip(
            batch["offset"].to_pylist(),
            *(columns[name].to_pylist() for name in (MERGE_KEY, RANK, IS_DELETED)),
            strict=True,
        )
        for index, (offset, key, rank, is_deleted) in enumerate(found):
            if offset in replay.quarantined:
                continue
            if index in decoded.truncations:
                self._truncated = offset
                gone = KeyRecord(rank, partition, offset, is_deleted=True)
                self._last = dict.fromkeys(self._last, gone)
            elif key is not None:
                is_gone = is_deleted or (partition, offset) in self._forgotten
                self._see(key, KeyRecord(rank, partition, offset, is_gone))

    def _see(self, key: bytes, record: KeyRecord) -> None:
        if key not in self._last or self._last[key].rank < record.rank:
            self._last[key] = record

    def _compare(
        self, files: Sequence[DataFile], order: RowOrder, ends: Mapping[int, int]
    ) -> Iterator[Difference]:
        there: dict[bytes, int] = {}
        for file in files:
            if file.role in (FileRole.QUARANTINE, FileRole.FORGOTTEN):
                continue
            rows = keyed_rows(self.table.store, file, order)
            is_deleted = file.role is FileRole.DELETED
            for key, rank, offset in zip(
                *(rows[name].to_pylist() for name in ("key", "rank", "offset")), strict=True
            ):
                if key in there:
                    text = f"key {key!r:.60} already has a row, from offset {there[key]}"
                    yield Difference.in_row(file.partition, offset, text, file.path)
                there[key] = offset
                found = KeyRecord(rank, file.partition, offset, is_deleted)
                yield from self._check_row(key, found, file, ends)
        missing = [
            (key, last)
            for key, last in self._last.items()
            if key not in there
            and (order.remembers_deletes or not last.is_deleted)
            and last.offset != self._truncated
            and last.place not in self._forgotten
        ]
        if len(missing) <= self._excused_count(missing):
            return
        for key, last in missing:
            what = "does not keep the deleted" if last.is_deleted else "has no row for"
            yield Difference.in_row(
                last.partition, last.offset, f"the table {what} key {key!r:.60}"
            )

    def _excused_count(self, missing: Sequence[Any]) -> int:
        """How many keys may have no row, because that of a later version was deleted on purpose:
        which keys these are only their records say, and the log has them no longer.
        """
        places = sorted(self._forgotten) if missing else []
        records = (KeyRecord(None, number, offset, is_deleted=True) for number, offset in places)
        return sum(map(self._is_no_record, records))

    def _check_row(
        self, key: bytes, row: KeyRecord, file: DataFile, ends: Mapping[int, int]
    ) -> Iterator[Difference]:
        last, offered = self._last.get(key), self.offered[row.partition]
        if last is None:
            # The row's record may have been removed by retention, or by compaction in favour of a
            # record that is not loaded yet.
            end = ends.get(row.partition, 0)
            is_there = offered.start_offset <= row.offset and offered.end_offset == end
            if self.is_compacted and row.offset < end and self._is_no_record(row):
                return
            if is_there or row.offset <= self._truncated:
                yield Difference.in_row(
                    row.partition, row.offset, "the log has no such record", file.path
                )
        elif last[1:3] in self._forgotten and row[1:3] != last[1:3]:
            # Nothing keeps the key of a row that was deleted on purpose.
            return
        elif last[1:] != row[1:] and not self._is_gone(row, last):
            what = "deleted" if last.is_deleted else "in the log"
            text = f"the last record of key {key!r:.60} is {what} at offset {last.offset}"
            if last.partition != row.partition:
                text += f" of partition {last.partition}"
            yield Difference.in_row(row.partition, row.offset, text, file.path)

    def _is_gone(self, row: KeyRecord, last: KeyRecord) -> bool:
        """Whether a row is of a record after the last one that the log still has."""
        is_by_offset = isinstance(row.rank, int) or isinstance(last.rank, int)
        if (is_by_offset and not self.is_compacted) or row.rank <= last.rank:
            return False
        return self._is_no_record(row)

    def _is_no_record(self, row: KeyRecord) -> bool:
        """Whether the log no longer has the record of a row."""
        if row.offset < self.offered[row.partition].start_offset:
            return True
        if self.is_compacted:
            return not self._is_left(row)
        wanted = OffsetRange(from_offset=row.offset, until_offset=row.offset + 1)
        return not self.log.count_records(TopicPartition(self.topic, row.partition), wanted)

    def _is_left(self, row: KeyRecord) -> bool:
        import numpy as np

        found = self._left.get(row.partition, [])
        if len(found) > 1:
            found[:] = [np.concatenate(found)]
        index = int(found[0].searchsorted(row.offset)) if found else 0
        return bool(found) and index < len(found[0]) and bool(found[0][index] == row.offset)


@dataclass(frozen=True, slots=True)
class _Replay:
    """How the records of a piece are followed."""

    builder: RowBuilder
    maker: ChangeMaker
    quarantined: set[int]
