"""Compares the end of a table with the log that is to continue it.

A log that lost its end (a power cut, an unclean election) and then grew past the table's end again
has offsets that fit, perhaps even the same leader epoch, and other records below the table's end.
The fingerprint of the last range is compared, from the headers of its batches; if it differs, as it
also does after compaction, or if there is none, the last row is compared with its record.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS
from ottla.loading.plan import PlannedRange
from ottla.record.batch import NO_TIMESTAMP
from ottla.sources.log_source import LogSource, OffsetsGoneError
from ottla.tables.data_files import read_columns, read_part
from ottla.tables.ledger_entries import DataFile, FileRole, LoadedPartition

if TYPE_CHECKING:
    from ottla.tables.table_directory import TableDirectory


def check_continues(
    table: "TableDirectory",
    log: LogSource,
    loaded: Mapping[int, LoadedPartition],
    ranges: Sequence[PlannedRange],
) -> None:
    """Raises `UserError` if the log has another record where the table has its last one."""
    for planned in ranges:
        before = loaded.get(planned.partition)
        if before is None or planned.is_empty or planned.from_offset != before.until_offset:
            continue
        try:
            if not _has_same_batches(log, planned, before):
                _check_last_row(table, log, planned, before)
        except OffsetsGoneError:
            continue  # Retention has removed what could be compared.


def _has_same_batches(log: LogSource, planned: PlannedRange, before: LoadedPartition) -> bool:
    if before.batches is None or before.is_empty or log.looks_by_reading:
        return False
    return log.roll_up(planned.place, before.offsets) == before.batches


def _check_last_row(
    table: "TableDirectory", log: LogSource, planned: PlannedRange, before: LoadedPartition
) -> None:
    files = [
        file
        for file in table.current_files()
        if file.partition == planned.partition
        and file.role is FileRole.ROWS
        and file.last_offset < before.until_offset
    ]
    if not files:
        return
    file = max(files, key=lambda one: one.last_offset)
    ours = _last_row(table, file)
    theirs = _record(log, planned, file.last_offset, list(ours))
    names = [name for name in ours if theirs is not None and ours[name] != theirs[name]]
    if names:
        assert theirs is not None
        found = "; ".join(
            f"its {name} is {theirs[name]!r:.60}, in the table {ours[name]!r:.60}" for name in names
        )
        raise UserError(
            f"{planned.topic}-{planned.partition}: the log's record at offset {file.last_offset} "
            f"is not the one that was loaded: {found}; the log lost its end and has grown again, "
            f"or is another log: load into another directory, or replace the rows that differ "
            f"(ottla audit names them, --rerun --from OFFSET reads them again)"
        )


def _last_row(table: "TableDirectory", file: DataFile) -> dict[str, Any]:
    """The last row of a file, in those columns that are as in the log."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = read_columns(table.store, file)
    kinds = {one.name: one.type for one in there}
    bytes_too = [one for one in ("key", "value") if kinds.get(one) == pa.binary()]
    rows = read_part(table.store, file, ["offset", "timestamp", *bytes_too])
    row = rows.filter(pc.equal(rows["offset"], file.last_offset)).slice(0, 1)
    times_ms = row["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    row = row.drop(["timestamp"]).append_column("timestamp_ms", times_ms)
    (found,) = row.to_pylist() or ({},)
    return _comparable(found)


def _record(
    log: LogSource, planned: PlannedRange, offset: int, names: list[str]
) -> dict[str, Any] | None:
    wanted = OffsetRange(from_offset=offset, until_offset=offset + 1)
    for split in log.splits({planned.place: wanted}):
        for batch in log.read(split, names):
            for row in batch.to_pylist():
                return _comparable(row)
    return None


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    """With -1 for a time that a table does not have (`sources.rows`)."""
    time_ms = row.get("timestamp_ms")
    is_there = time_ms is not None and FIRST_TIME_MS <= time_ms <= LAST_TIME_MS
    return {**row, "timestamp_ms": time_ms if is_there else NO_TIMESTAMP}
