"""Whether the files that a load wrote hold exactly what it read from the log.

The files' footers say which partition and offsets they hold and how many rows. Where those are as
many as the range has offsets, nothing can be missing or there twice. Where they are fewer (control
records, aborted transactions, compaction), the log's own batches are counted and must agree.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UserError
from ottla.spark.log_source import LogSource
from ottla.spark.manifest import DataFile, OffsetRange
from ottla.spark.plan import PlannedRange


def verify_files(
    plan: Sequence[PlannedRange], files: Sequence[DataFile], log: LogSource
) -> Mapping[int, int]:
    """The rows of each planned partition; raises `UserError` when they are not the log's records.

    Then the log has changed while it was read (compaction, most likely).
    """
    planned = {one.partition: one for one in plan}
    by_partition: dict[int, list[DataFile]] = {number: [] for number in planned}
    for file in files:
        if file.partition not in planned:
            raise UserError(f"{file.path} holds partition {file.partition}, which was not read")
        by_partition[file.partition].append(file)
    return {
        number: _verified_count(planned[number], by_partition[number], log) for number in planned
    }


def _verified_count(planned: PlannedRange, files: list[DataFile], log: LogSource) -> int:
    place = f"{planned.topic}-{planned.partition}"
    next_offset = planned.from_offset
    for file in sorted(files, key=lambda file: file.first_offset):
        span = file.last_offset - file.first_offset + 1
        is_within = next_offset <= file.first_offset and file.last_offset < planned.until_offset
        if not is_within or file.row_count > span:
            raise UserError(
                f"{place}: {file.path} holds {file.row_count} rows of offsets "
                f"{file.first_offset} to {file.last_offset}, of which some were written twice; "
                f"run it again"
            )
        next_offset = file.last_offset + 1
    row_count = sum(file.row_count for file in files)
    if row_count == planned.until_offset - planned.from_offset:
        return row_count
    wanted = OffsetRange(from_offset=planned.from_offset, until_offset=planned.until_offset)
    expected = log.count_records(planned.partition, wanted)
    if expected is not None and expected != row_count:
        raise UserError(
            f"{place}: {row_count} rows were written of offsets {planned.from_offset} to "
            f"{planned.until_offset - 1}, where the log now has {expected} records; run it again"
        )
    return row_count
