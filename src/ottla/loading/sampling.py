"""The first records of a load: what rows they make, and how large these are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange
from ottla.loading.plan import PlannedRange
from ottla.record.columns import COLUMNS
from ottla.sources.log_source import LogSource, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS = 2000
"""The number of records per partition, from the first offset to load."""

SAMPLED_PARTITIONS = 16


def sample_of(log: LogSource, plan: Sequence[PlannedRange]) -> "pa.Table":
    """The first records of the plan, in the columns of `record.columns`."""
    sampled = [planned for planned in plan if not planned.is_empty][:SAMPLED_PARTITIONS]
    ranges = {
        planned.place: OffsetRange(
            from_offset=planned.from_offset,
            until_offset=min(planned.until_offset, planned.from_offset + SAMPLED_ROWS),
        )
        for planned in sampled
    }
    return read_ranges(log, ranges, COLUMNS)


def parquet_row_size(sample: "pa.Table") -> float:
    """The approximate bytes of a row in Parquet; 0 if the sample is empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not sample.num_rows:
        return 0.0
    sink = pa.BufferOutputStream()
    pq.write_table(sample, sink, compression="zstd")
    return float(sink.tell() / sample.num_rows)
