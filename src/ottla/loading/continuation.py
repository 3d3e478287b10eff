"""Compares the end of a table with the log that is to continue it.

A log that lost its end (a power cut, an unclean election) and then grew past the table's end again
has offsets that fit, perhaps even the same leader epoch, and other records below the table's end.
The fingerprint of the last range is compared, from the headers of its batches; if it differs, as it
also does after compaction, or if there is none (a broker's log), the last row of which the log has
the record is compared with it: the row before it may be of a record that compaction removed.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS
from ottla.loading.plan import PlannedRange
from ottla.record.batch import NO_TIMESTAMP
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogSource, OffsetsGoneError
from ottla.tables import (
    HEADER,
    KEY,
    VALUE,
    DataFile,
    FileRole,
    LoadedPartition,
    RecordDecoder,
    Table,
)

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("offset", "timestamp_ms", "key", "value", "headers")
"""What is read of a record, to be compared as it is or decoded."""

SPANS = (1, 100, 10_000)
"""How many offsets before a file's end may be searched for one that the log still has."""


def check_continues(
    table: Table,
    log: LogSource,
    loaded: Mapping[int, LoadedPartition],
    ranges: Sequence[PlannedRange],
    login: RegistryLogin | None = None,
) -> None:
    """Raises `UserError` if the log has another record where the table has its last one."""
    for planned in ranges:
        before = loaded.get(planned.partition)
        if before is None or planned.is_empty or planned.from_offset != before.until_offset:
            continue
        try:
            if not _has_same_batches(log, planned, before):
                _check_last_row(table, log, planned, before, login)
        except OffsetsGoneError:
            continue  # Retention has removed what could be compared.


def _has_same_batches(log: LogSource, planned: PlannedRange, before: LoadedPartition) -> bool:
    if before.batches is None or before.is_empty or log.looks_by_reading:
        return False
    return log.roll_up(planned.place, before.offsets) == before.batches


def _check_last_row(
    table: Table,
    log: LogSource,
    planned: PlannedRange,
    before: LoadedPartition,
    login: RegistryLogin | None,
) -> None:
    files = [
        file
        for file in table.current_files()
        if file.partition == planned.partition and file.last_offset < before.until_offset
    ]
    if not files:
        return
    file = max(files, key=lambda one: one.last_offset)
    record = _last_record(log, planned, file, table.files.offsets(file))
    if record is None:
        return  # Compaction or retention has removed what could be compared.
    found = _difference(_row(table, file, record["offset"][0].as_py()), record, table, login)
    if found is not None:
        raise UserError(
            f"{planned.topic}-{planned.partition}: the log's record at offset "
            f"{record['offset'][0]} is not the one that was loaded: {found}; the log lost its end "
            f"and has grown again, or is another log: load into another directory, or replace the "
            f"rows that differ (ottla audit names them, --rerun --from OFFSET reads them again)"
        )


def _last_record(
    log: LogSource, planned: PlannedRange, file: DataFile, offsets: Any
) -> "pa.RecordBatch | None":
    """The last of the log's records that is also a row of the file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    until = file.last_offset + 1
    ours = pa.array(offsets)
    for span in SPANS:
        first, last = max(file.first_offset, file.last_offset + 1 - span), until
        wanted = OffsetRange(from_offset=min(first, last), until_offset=last)
        found = None
        for split in log.splits({planned.place: wanted}):
            for batch in log.read(split, COLUMNS):
                both = batch.filter(pc.is_in(batch["offset"], ours))
                found = both.slice(both.num_rows - 1) if both.num_rows else found
        if found is not None:
            return found
        until = wanted.from_offset
    return None


def _row(table: Table, file: DataFile, offset: int) -> "pa.Table":
    """A row with what can be compared: times, what is as in the log, and what was decoded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = table.files.columns(file).names
    names = ["offset", "timestamp", "commit_id", KEY, VALUE, HEADER]
    rows = table.files.rows(file, [one for one in names if one in there])
    row = rows.filter(pc.equal(rows["offset"], offset)).slice(0, 1)
    times_ms = row["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    row = row.drop(["timestamp"]).append_column("timestamp_ms", times_ms)
    if file.role is FileRole.QUARANTINE:  # Perhaps without its bytes, which no schema fits.
        row = row.drop([one for one in row.column_names if row[one].null_count])
    return row


def _difference(
    row: "pa.Table", record: "pa.RecordBatch", table: Table, login: RegistryLogin | None
) -> str | None:
    """What differs between a row and its record."""
    import pyarrow as pa

    theirs = {name: record[name] for name in record.schema.names}
    in_bytes = [one for one in (KEY, VALUE) if one in row.column_names]
    if any(row[one].type != pa.binary() for one in in_bytes) or HEADER in row.column_names:
        decoding = table.layout().record_decoding_of(row["commit_id"][0].as_py())
        theirs |= RecordDecoder(decoding, login).decode(record).columns
    texts = []
    for name in row.column_names:
        if name not in theirs:
            continue
        mine, its = row[name][0].as_py(), theirs[name].cast(row[name].type)[0].as_py()
        if name == "timestamp_ms":
            mine, its = _time(mine), _time(its)
        if repr(mine) != repr(its):  # As text: NaN is not equal to itself.
            texts.append(f"its {name} is {its!r:.60}, in the table {mine!r:.60}")
    return "; ".join(texts) or None


def _time(time_ms: int | None) -> int:
    """With -1 for a time that a table does not have (`sources.rows`)."""
    if time_ms is None or not FIRST_TIME_MS <= time_ms <= LAST_TIME_MS:
        return NO_TIMESTAMP
    return time_ms
