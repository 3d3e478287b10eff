"""Checks that a table with the latest row of each key matches its log.

Reads the log again up to the loaded offsets and keeps the last record of each key, record by
record, unlike a merge. Quarantined records are left out. Rows whose records were removed by
retention or compaction cannot be compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.loading.auditing.report import Difference
from ottla.loading.row_comparison import first_difference, stored_rows
from ottla.loading.value_comparison import wrong_values
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogPartition, LogSource, read_ranges
from ottla.tables import (
    Action,
    DataFile,
    FileRole,
    ForgottenPlaces,
    LedgerEntry,
    Piece,
    RecordDecoder,
    RecordDecoding,
    Table,
    rows_only,
)

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("key", "value", "offset", "headers")


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


@dataclass(slots=True)
class StateAudit:
    """The audit of one partition; `offered` is the range that the log has."""

    table: Table
    log: LogSource
    place: TopicPartition
    offered: LogPartition
    login: RegistryLogin | None = None
    rows_compared: int = 0
    _last: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    """By key: the offset of the last record, and whether it deletes the row."""
    _truncated: int = -1
    _forgotten: frozenset[int] = frozenset()
    """The offsets whose rows were deleted on purpose."""

    def differences(
        self, pieces: Sequence[Piece], files: Sequence[DataFile]
    ) -> Iterator[Difference]:
        """Yields missing, duplicate and superfluous rows.

        Raises `OffsetsGoneError` if the log loses records meanwhile.
        """
        quarantined = {
            offset
            for file in files
            if file.role is FileRole.QUARANTINE
            for offset in self.table.files.offsets(file).tolist()
        }
        places = ForgottenPlaces(self.table.files, files)
        quarantined |= set(places.of_quarantine(self.place.partition).tolist())
        self._forgotten = frozenset(places.of_rows(self.place.partition).tolist())
        layout = self.table.layout()
        for piece in pieces:
            wanted = self._offered_of(piece.offsets)
            if not wanted.is_empty:
                self._follow(wanted, layout.record_decoding_of(piece.commit_id), quarantined)
        ends = [piece.until_offset for piece in pieces]
        yield from self._compare(files, max(ends, default=0))

    def differences_of_rows(self, file: DataFile) -> Iterator[Difference]:
        """Compares the rows of a file with their records."""
        # Rows beyond the log's end are those of another program, as `differences` says.
        until = min(file.last_offset + 1, self.offered.end_offset)
        wanted = self._offered_of(OffsetRange(from_offset=file.first_offset, until_offset=until))
        if wanted.is_empty:
            return
        import pyarrow.compute as pc

        stored = stored_rows(self.table.files, [file], wanted)
        log = read_ranges(self.log, {self.place: wanted}, stored.column_names)
        log = log.filter(pc.is_in(log["offset"], stored["offset"].combine_chunks()))
        stored = stored.filter(pc.is_in(stored["offset"], log["offset"].combine_chunks()))
        self.rows_compared += stored.num_rows
        found = first_difference(stored, log)
        if found is not None:
            yield self._difference(*found, file.path)
            return
        for offset, text in wrong_values(
            self.table, file, self.log, self.place, wanted, self.login
        ):
            yield self._difference(offset, text, file.path)

    def _offered_of(self, wanted: OffsetRange) -> OffsetRange:
        start = max(wanted.from_offset, self.offered.start_offset)
        return OffsetRange(from_offset=start, until_offset=max(start, wanted.until_offset))

    def _follow(self, wanted: OffsetRange, decoding: RecordDecoding, quarantined: set[int]) -> None:
        for split in self.log.splits({self.place: wanted}):
            for batch in self.log.read(split, _COLUMNS):
                self._apply(batch, decoding, quarantined)

    def _apply(
        self, batch: "pa.RecordBatch", decoding: RecordDecoding, quarantined: set[int]
    ) -> None:
        decoded = RecordDecoder(decoding, self.login).decode(batch)
        values = decoded.columns.get("value", batch["value"])
        offsets, keys = batch["offset"].to_pylist(), batch["key"].to_pylist()
        is_deleted = values.is_null().to_pylist()
        for index, offset in enumerate(offsets):
            if offset in quarantined:
                continue
            if index in decoded.truncations:
                self._truncated = offset
                self._last = dict.fromkeys(self._last, (offset, True))
            elif keys[index] is not None:
                is_gone = is_deleted[index] or offset in self._forgotten
                self._last[keys[index]] = offset, is_gone

    def _compare(self, files: Sequence[DataFile], end: int) -> Iterator[Difference]:
        there: dict[bytes, int] = {}
        for file in rows_only(files):
            found = self.table.files.rows(file, ["key", "offset"])
            pairs = zip(found["key"].to_pylist(), found["offset"].to_pylist(), strict=True)
            for key, offset in pairs:
                if key in there:
                    text = f"key {key!r:.60} already has a row, from offset {there[key]}"
                    yield self._difference(offset, text, file.path)
                there[key] = offset
                yield from self._check_row(key, offset, file, end)
        for key, (offset, is_deleted) in self._last.items():
            if not is_deleted and key not in there:
                yield Difference.in_row(
                    self.place.partition, offset, f"the table has no row for key {key!r:.60}"
                )

    def _check_row(self, key: bytes, offset: int, file: DataFile, end: int) -> Iterator[Difference]:
        last = self._last.get(key)
        if last is None:
            # The row's record may have been removed by retention, or by compaction in favour of a
            # record that is not loaded yet.
            is_there = self.offered.start_offset <= offset and self.offered.end_offset == end
            if is_there or offset <= self._truncated:
                yield Difference.in_row(
                    self.place.partition, offset, "the log has no such record", file.path
                )
        elif last != (offset, False):
            what = "deleted" if last[1] else "in the log"
            text = f"the last record of key {key!r:.60} is {what} at offset {last[0]}"
            yield self._difference(offset, text, file.path)

    def _difference(self, offset: int, text: str, path: str | None = None) -> Difference:
        return Difference.in_row(self.place.partition, offset, text, path)
