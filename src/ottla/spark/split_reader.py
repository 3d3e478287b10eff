"""Runs in a task: returns a split's records as rows for Spark, and skips removed offsets."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from ottla.base.errors import UserError
from ottla.record.rows import RowMaker, decoded_columns
from ottla.sources.log_source import LogSource, OffsetsGoneError, Split
from ottla.sources.opening import open_log
from ottla.sources.options import COLUMN_TYPES, ReadOptions
from ottla.sources.splits import SplitOptions
from ottla.sources.stream.continuity import Loss, LossKind, report
from ottla.spark.plain_errors import plain_errors
from ottla.spark.worker import exempt_imports, quieten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class SplitPartition(InputPartition):  # type: ignore[misc]
    """A split, as Spark passes it to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(None)
        self.split = split


def split_options(options: ReadOptions) -> SplitOptions:
    return SplitOptions(min_count=options.min_partitions, max_offsets=options.max_records)


def read_partition(
    options: ReadOptions, partition: InputPartition, schema: "StructType"
) -> "Iterator[pa.RecordBatch]":
    """Runs a task of a batch or a stream."""
    quieten()
    # If there are no partitions, Spark passes a plain `InputPartition`.
    if isinstance(partition, SplitPartition):
        with plain_errors():
            log = open_log(options)
            fail = options.fail_on_data_loss
            yield from read_rows(log, partition.split, schema, fail_on_data_loss=fail)
        exempt_imports()


def check_schema(schema: "StructType") -> None:
    """A user's own `.schema(...)` may leave columns out and reorder them, but not change them."""
    for field in schema.fields:
        offered = COLUMN_TYPES.get(field.name)
        if offered is None:
            names = ", ".join(COLUMN_TYPES)
            raise UserError(f"there is no column {field.name!r}; there are {names}")
        if field.dataType.simpleString() != offered.replace(" ", ""):
            wanted: Any = field.dataType.simpleString()
            raise UserError(f"column {field.name} is {offered}, and cannot be read as {wanted}")


def arrow_schema(spark_schema: Any) -> Any:
    """Converts Spark's schema (a `StructType`) to Arrow's, as Spark itself does."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_schema, timezone="UTC")


def read_rows(
    log: LogSource, split: Split, spark_schema: Any, *, fail_on_data_loss: bool
) -> "Iterator[pa.RecordBatch]":
    """Rows of the schema; raises `UserError` for offsets that are removed before they are read.

    Without `fail_on_data_loss` the loss is logged, and reading continues at the log start offset.
    """
    schema = arrow_schema(spark_schema)
    place = split.place
    maker = RowMaker(place.topic, place.partition, schema, has_null_headers=True)
    columns = decoded_columns(schema.names)
    offset = split.from_offset
    while offset < split.until_offset:
        try:
            for decoded in log.read(replace(split, from_offset=offset), columns):
                if decoded.num_rows:
                    yield maker.rows(decoded)
                    offset = decoded.column("offset")[-1].as_py() + 1
            return
        except OffsetsGoneError as error:
            if fail_on_data_loss or error.start_offset <= offset:
                raise
            begin = min(error.start_offset, split.until_offset)
            lost = Loss(
                place=place,
                kind=LossKind.REMOVED,
                from_offset=offset,
                until_offset=begin,
                continues_at=begin,
            )
            report([lost], fail=False)
            offset = begin
