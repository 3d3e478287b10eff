"""Whether the files that a load wrote hold exactly what it read from the log.

The files' footers say which partition and offsets they hold and how many rows. Where those are as
many as the range has offsets, nothing can be missing or there twice. Where they are fewer (control
records, aborted transactions, compaction), the log's own batches are counted and must agree. Files
whose offsets lie between each other's (rows sorted into directories by their time) have their
offset columns read. Rows in quarantine count: they are records of the log like any other.
"""

from collections.abc import Sequence

from ottla.base.errors import UserError
from ottla.loading.plan import PlannedRange
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.log_source import LogSource, OffsetsGoneError
from ottla.tables.data_files import rows_there_twice
from ottla.tables.ledger_entries import DataFile, FileRole, LoadedPartition
from ottla.tables.store import TableStore


class LogChangedError(UserError):
    """The written rows differ from the log; reading it again may make both equal."""


def verify_files(
    plan: Sequence[PlannedRange], files: Sequence[DataFile], log: LogSource, store: TableStore
) -> tuple[LoadedPartition, ...]:
    """What was loaded of each planned partition; raises `LogChangedError` when it is not the log's.

    Most likely the log was compacted while it was read.
    """
    by_partition: dict[int, list[DataFile]] = {one.partition: [] for one in plan}
    for file in files:
        if file.partition not in by_partition:
            raise UserError(f"{file.path} holds partition {file.partition}, which was not read")
        by_partition[file.partition].append(file)
    for one in plan:
        _check_offsets(one, by_partition[one.partition], store)
    return tuple(_verified(one, by_partition[one.partition], log) for one in plan)


def _check_offsets(planned: PlannedRange, files: Sequence[DataFile], store: TableStore) -> None:
    for file in files:
        span = file.last_offset - file.first_offset + 1
        is_within = (
            planned.from_offset <= file.first_offset and file.last_offset < planned.until_offset
        )
        if not is_within or file.row_count > span:
            raise _written_twice(planned, file)
    twice = rows_there_twice(store, files)
    if twice is not None:
        raise _written_twice(planned, twice)


def _written_twice(planned: PlannedRange, file: DataFile) -> LogChangedError:
    return LogChangedError(
        f"{planned.topic}-{planned.partition}: {file.path} holds {file.row_count} rows of offsets "
        f"{file.first_offset} to {file.last_offset}, of which some were written twice; "
        f"run it again"
    )


def _verified(planned: PlannedRange, files: Sequence[DataFile], log: LogSource) -> LoadedPartition:
    quarantined_count = sum(file.row_count for file in files if file.role is FileRole.QUARANTINE)
    row_count = sum(file.row_count for file in files) - quarantined_count
    if not planned.is_empty:
        _check_count(planned, row_count + quarantined_count, log)
    return LoadedPartition(
        topic=planned.topic,
        topic_id=planned.topic_id,
        partition=planned.partition,
        from_offset=planned.from_offset,
        until_offset=planned.until_offset,
        row_count=row_count,
        quarantined_count=quarantined_count,
        log_end_offset=planned.log_end_offset,
        batches=None if planned.is_empty else _rolled_up(planned, log),
        lost=planned.lost,
    )


def _rolled_up(planned: PlannedRange, log: LogSource) -> BatchRollUp | None:
    """What the batches come to, for audits to compare; `None` where they are not looked at."""
    if log.looks_by_reading:
        return None  # What was fetched once is not fetched again: audits count a broker's.
    try:
        return log.roll_up(planned.place, planned.offsets)
    except OffsetsGoneError:
        # All rows are here, and no audit will see those batches either.
        return None


def _check_count(planned: PlannedRange, count: int, log: LogSource) -> None:
    if count == planned.count or log.looks_by_reading:
        return
    expected = log.count_records(planned.place, planned.offsets)
    if expected is not None and expected != count:
        raise LogChangedError(
            f"{planned.topic}-{planned.partition}: {count} rows were written of offsets "
            f"{planned.from_offset} to {planned.until_offset - 1}, where the log now has "
            f"{expected} records; run it again"
        )
