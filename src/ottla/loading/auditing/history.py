"""Checks that a table with history matches its log: of each key all records, each valid until the
next.

Records that retention or compaction removed are known from the table alone, so that their rows end
others, and are not compared with the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ottla.base.values import dataclass
from ottla.loading.auditing.latest import KeyRecord, StateAudit
from ottla.loading.auditing.report import Difference
from ottla.tables import (
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
    DataFile,
    FileRole,
    RowOrder,
    keyed_rows,
    version_of,
)


class _Row(NamedTuple):
    """A row of the table, or a deleted key, which has no validity."""

    record: KeyRecord
    validity: tuple[Any, Any, bool] | None
    path: str


@dataclass(slots=True)
class HistoryAudit(StateAudit):
    """See `StateAudit`."""

    _records: dict[bytes, dict[tuple[int, int], KeyRecord]] = field(default_factory=dict)
    """By key and place."""

    def _see(self, key: bytes, record: KeyRecord) -> None:
        self._records.setdefault(key, {})[record.place] = record

    def _compare(
        self, files: Sequence[DataFile], order: RowOrder, ends: Mapping[int, int]
    ) -> Iterator[Difference]:
        there: dict[bytes, list[_Row]] = {}
        for file in files:
            if file.role in (FileRole.ROWS, FileRole.DELETED):
                for key, row in self._rows_of(file, order):
                    there.setdefault(key, []).append(row)
        for key in {**self._records, **there}:
            yield from self._compare_key(key, there.get(key, []), order, ends)

    def _rows_of(self, file: DataFile, order: RowOrder) -> Iterator[tuple[bytes, _Row]]:
        rows = keyed_rows(self.table.store, file, order)
        is_deleted = file.role is FileRole.DELETED
        validity: list[Any] = [None] * rows.num_rows
        if not is_deleted:
            found = self.table.files.rows(file, [VALID_FROM, VALID_TO, IS_CURRENT])
            validity = [tuple(one.values()) for one in found.to_pylist()]
        each = (rows[name].to_pylist() for name in ("key", "rank", "offset"))
        for key, rank, offset, valid in zip(*each, validity, strict=True):
            record = KeyRecord(rank, file.partition, offset, is_deleted)
            yield key, _Row(record, valid, file.path)

    def _compare_key(
        self, key: bytes, rows: Sequence[_Row], order: RowOrder, ends: Mapping[int, int]
    ) -> Iterator[Difference]:
        records = dict(self._records.get(key, {}))
        seen: set[tuple[int, int]] = set()
        for row in rows:
            place, offset = row.record.place, row.record.offset
            if place in seen:
                text = f"key {key!r:.60} already has a row of this record"
                yield Difference.in_row(place[0], offset, text, row.path)
            seen.add(place)
            if place not in records:
                if offset >= ends.get(place[0], 0) or not self._is_no_record(row.record):
                    text = "the log has no such record"
                    yield Difference.in_row(place[0], offset, text, row.path)
                records[place] = row.record
            elif records[place].is_deleted is not row.record.is_deleted:
                what = "deletes the row" if records[place].is_deleted else "is a row"
                yield Difference.in_row(place[0], offset, f"its record {what}", row.path)
        for place, record in records.items():
            if place not in seen and place not in self._forgotten:
                what = "does not keep the deleted" if record.is_deleted else "has no row for"
                text = f"the table {what} key {key!r:.60}"
                yield Difference.in_row(record.partition, record.offset, text)
        yield from self._compare_validity(records, rows, order)

    def _compare_validity(
        self,
        records: Mapping[tuple[int, int], KeyRecord],
        rows: Sequence[_Row],
        order: RowOrder,
    ) -> Iterator[Difference]:
        in_order = sorted(records.values(), key=lambda one: one.rank)
        index = {one.place: number for number, one in enumerate(in_order)}
        for row in rows:
            if row.validity is None:
                continue
            first = version_of(row.record.rank, order)
            expected = [
                (first, None if end is None else version_of(end.rank, order), end is None)
                for end in self._ends(in_order[index[row.record.place] + 1 :])
            ]
            if row.validity not in expected:
                text = f"it is valid {_words(row.validity)}, by the log {_words(expected[0])}"
                yield Difference.in_row(row.record.partition, row.record.offset, text, row.path)

    def _ends(self, following: Sequence[KeyRecord]) -> Iterator[KeyRecord | None]:
        """The records that may end a row, of those that follow it; `None` for no end."""
        for one in following:
            yield one
            # A record that comes late does not meet a row that was deleted on purpose before.
            if one.place not in self._forgotten:
                return
        yield None


def _words(validity: tuple[Any, Any, bool]) -> str:
    first, last, is_current = validity
    return f"from {first} to {last}{' (current)' if is_current else ''}"
