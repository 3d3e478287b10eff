"""Compares the end of a table with the log that is to continue it.

A log that lost its end (a power cut, an unclean election) and then grew past the table's end again
has offsets that fit, perhaps even the same leader epoch, and other records below the table's end.
The fingerprint of the last range is compared, from the headers of its batches; if it differs, as it
also does after compaction, or if there is none (a broker's log), the last row of which the log has
the record is compared with it: the row before it may be of a record that compaction removed.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.loading.plan import PlannedRange
from ottla.loading.row_comparison import first_difference, stored_rows
from ottla.loading.value_comparison import wrong_values
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.log_source import LogSource, OffsetsGoneError, read_ranges
from ottla.tables import DataFile, FileRole, LoadedPartition, Table

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
        if file.role in (FileRole.ROWS, FileRole.QUARANTINE)  # The others have no records.
        and file.partition == planned.partition
        and file.last_offset < before.until_offset
    ]
    if not files:
        return
    file = max(files, key=lambda one: one.last_offset)
    offset = _last_shared_offset(table, log, planned, file)
    if offset is None:
        return  # Compaction or retention has removed what could be compared.
    found = _difference(table, log, planned, file, offset, login)
    if found is not None:
        raise UserError(
            f"{planned.place}: the log's record at offset {offset} is not the one that was loaded: "
            f"{found}; the log lost its end and has grown again, or is another log: load into "
            f"another directory, or replace the rows that differ (ottla audit names them, --rerun "
            f"--from OFFSET reads them again)"
        )


def _last_shared_offset(
    table: Table, log: LogSource, planned: PlannedRange, file: DataFile
) -> int | None:
    """The last offset of which the file has a row and the log a record."""
    import numpy as np

    ours = table.files.offsets(file)
    until = file.last_offset + 1
    for span in SPANS:
        first = min(max(file.first_offset, file.last_offset + 1 - span), until)
        wanted = OffsetRange(from_offset=first, until_offset=until)
        theirs = read_ranges(log, {planned.place: wanted}, ("offset",))["offset"].to_numpy()
        shared = np.intersect1d(ours, theirs)
        if len(shared):
            return int(shared[-1])
        until = first
    return None


def _difference(
    table: Table,
    log: LogSource,
    planned: PlannedRange,
    file: DataFile,
    offset: int,
    login: RegistryLogin | None,
) -> str | None:
    """What differs between a row and its record: bytes and times, and what was decoded."""
    wanted = OffsetRange(from_offset=offset, until_offset=offset + 1)
    stored = stored_rows(table.files, [file], wanted)
    record = read_ranges(log, {planned.place: wanted}, stored.column_names)
    found = first_difference(stored, record)
    if found is None and file.role is FileRole.ROWS:
        found = next(wrong_values(table, file, log, planned.place, wanted, login), None)
    return None if found is None else found[1]
