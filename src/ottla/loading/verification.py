"""Checks that the files of a load have exactly the records of its ranges.

The footers give partition, offsets and row counts. If a partition has as many rows as the range has
offsets, no row is missing or duplicated. If it has fewer (control records, aborted transactions,
compaction), the log's batches are counted and must agree. For files with interleaved offsets (rows
sorted into directories by time) the offset columns are read. Quarantined rows count as records of
the log.
"""

from collections.abc import Callable, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.loading.plan import PlannedRange
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.log_source import LogSource, OffsetsGoneError
from ottla.tables import DataFile, DataFiles, FileRole, LoadedPartition

LeftOut = Callable[[int, OffsetRange], int]


def nothing_left_out(partition: int, offsets: OffsetRange) -> int:
    """A `LeftOut` of loads, which read no offset again."""
    return 0


class LogChangedError(UserError):
    """The written rows differ from the log; another attempt may succeed."""


def verify_files(
    plan: Sequence[PlannedRange],
    files: Sequence[DataFile],
    log: LogSource,
    opened: DataFiles,
    left_out: LeftOut = nothing_left_out,
) -> tuple[LoadedPartition, ...]:
    """The loaded partitions; raises `LogChangedError` if the rows differ from the log.

    `left_out` says how many records of a range a rerun leaves out, because they were deleted on
    purpose; compaction may have removed some of them from the log.

    The usual cause is that the log was compacted while it was read.
    """
    by_partition: dict[int, list[DataFile]] = {one.partition: [] for one in plan}
    for file in files:
        if file.partition not in by_partition:
            raise UserError(f"{file.path} holds partition {file.partition}, which was not read")
        by_partition[file.partition].append(file)
    for one in plan:
        _check_offsets(one, by_partition[one.partition], opened)
    return tuple(
        _verified(one, by_partition[one.partition], log, left_out(one.partition, one.offsets))
        for one in plan
    )


def _check_offsets(planned: PlannedRange, files: Sequence[DataFile], opened: DataFiles) -> None:
    for file in files:
        span = file.last_offset - file.first_offset + 1
        is_within = (
            planned.from_offset <= file.first_offset and file.last_offset < planned.until_offset
        )
        if not is_within or file.row_count > span:
            raise _written_twice(planned, file)
    twice = opened.first_repeated(files)
    if twice is not None:
        raise _written_twice(planned, twice)


def _written_twice(planned: PlannedRange, file: DataFile) -> LogChangedError:
    return LogChangedError(
        f"{planned.topic}-{planned.partition}: {file.path} holds {file.row_count} rows of offsets "
        f"{file.first_offset} to {file.last_offset}, of which some were written twice; "
        f"run it again"
    )


def _verified(
    planned: PlannedRange, files: Sequence[DataFile], log: LogSource, left_out: int
) -> LoadedPartition:
    quarantined_count = sum(file.row_count for file in files if file.role is FileRole.QUARANTINE)
    row_count = sum(file.row_count for file in files) - quarantined_count
    if not planned.is_empty:
        _check_count(planned, row_count + quarantined_count, log, left_out)
    return LoadedPartition(
        topic=planned.topic,
        topic_id=planned.topic_id,
        partition=planned.partition,
        from_offset=planned.from_offset,
        until_offset=planned.until_offset,
        row_count=row_count,
        quarantined_count=quarantined_count,
        forgotten_count=left_out,
        log_end_offset=planned.log_end_offset,
        batches=None if planned.is_empty else _rolled_up(planned, log),
        lost=planned.lost,
    )


def _rolled_up(planned: PlannedRange, log: LogSource) -> BatchRollUp | None:
    """The roll-up of the batches for audits; `None` if the log cannot provide it."""
    if log.looks_by_reading:
        return None  # Records are not fetched again; audits count a broker's records.
    try:
        return log.roll_up(planned.place, planned.offsets)
    except OffsetsGoneError:
        # All rows are written, and no audit will see these batches either.
        return None


def _check_count(planned: PlannedRange, count: int, log: LogSource, left_out: int) -> None:
    if count + left_out == planned.count or log.looks_by_reading:
        return
    expected = log.count_records(planned.place, planned.offsets)
    if not count <= expected <= count + left_out:
        raise LogChangedError(
            f"{planned.topic}-{planned.partition}: {count} rows were written of offsets "
            f"{planned.from_offset} to {planned.until_offset - 1}, where the log now has "
            f"{expected} records; run it again"
        )
