"""Estimates from the first records: the size of rows, and the schema of JSON values."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.loading.plan import PlannedRange
from ottla.record.columns import COLUMNS
from ottla.schema_registry.framing import PREFIX
from ottla.sources.log_source import LogSource, read_ranges
from ottla.tables.layout import LayoutOptions, TableLayout, check_partitioning, next_layout
from ottla.tables.values.debezium import bare_row
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.values.inference import infer_schema, with_inferred_fields
from ottla.tables.values.schema import parse_schema, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS = 2000
"""The number of records per partition, from the first offset to load."""

SAMPLED_PARTITIONS = 16


def sample_of(log: LogSource, plan: Sequence[PlannedRange]) -> "pa.Table":
    """The first records of the plan, in the columns of `record.columns`."""
    sampled = [one for one in plan if not one.is_empty][:SAMPLED_PARTITIONS]
    ranges = {
        one.place: OffsetRange(
            from_offset=one.from_offset,
            until_offset=min(one.until_offset, one.from_offset + SAMPLED_ROWS),
        )
        for one in sampled
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


def with_inferred_schema(layout: TableLayout, sample: "pa.Table") -> TableLayout:
    """The layout with a schema inferred from the sample; raises `UserError` if there is none."""
    (pinned,) = layout.decodings
    assert pinned.decoding is not None
    values = _bare(sample["value"].to_pylist(), pinned.decoding)
    decoding = replace(pinned.decoding, schema=schema_text(infer_schema(values)))
    found = replace(layout, decodings=(replace(pinned, decoding=decoding),))
    check_partitioning(found)
    return found


def with_grown_schema(layout: TableLayout, sample: "pa.Table", commit_id: int) -> TableLayout:
    """The layout with fields of the sample added to its JSON schema; raises `UserError`."""
    decoding = layout.decoding
    if decoding is None or decoding.format is not ValueFormat.JSON or decoding.registry:
        raise UserError(
            "--grow is for JSON without a registry: with one, columns follow the subject; a given "
            "schema grows when another one is given"
        )
    values = _bare(sample["value"].to_pylist(), decoding)
    kind = with_inferred_fields(parse_schema(decoding.schema), values)
    wanted = replace(decoding, schema=schema_text(kind))
    return next_layout(layout, LayoutOptions(decoding=wanted), commit_id)


def _bare(values: list[bytes | None], decoding: Decoding) -> Iterable[bytes | None]:
    if decoding.confluent:
        values = [None if value is None else value[PREFIX.size :] for value in values]
    if decoding.envelope is Envelope.DEBEZIUM:
        values = [bare_row(value) for value in values]
    return values
