"""The data source `ottla`: `spark.read.format("ottla")` over segment files or a broker, no jar.

Options: `options.py`. Columns: those of Spark's own Kafka source, so that a job written for that
one runs unchanged. Records are read committed, and control records are no rows. Spark makes a
`OttlaSource` afresh in its planning process and in every task; nothing is shared between them but
what a task's `SplitPartition` carries.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.base.errors import UserError
from ottla.spark.log_source import Split, open_log
from ottla.spark.options import COLUMN_TYPES, ReadOptions, parse_options, resolve_ranges
from ottla.spark.rows import RowMaker, arrow_schema, decoded_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class SplitPartition(InputPartition):  # type: ignore[misc]
    """A split, as Spark hands it to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(None)
        self.split = split


class OttlaSource(DataSource):  # type: ignore[misc]
    """Registered as `ottla` by `import pyspark_ottla`, or by Spark itself where it can import."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        return parse_options(self.options).spark_schema

    def reader(self, schema: "StructType") -> "OttlaReader":
        return OttlaReader(parse_options(self.options), schema)


class OttlaReader(DataSourceReader):  # type: ignore[misc]
    """One batch read: offsets are settled once, in `partitions`."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        _check_schema(schema)
        self._options = options
        self._spark_schema = schema

    def partitions(self) -> list[SplitPartition]:
        log = open_log(self._options)
        ranges = resolve_ranges(self._options, log.partitions())
        splits = log.splits(ranges, self._options.min_partitions)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Spark makes a plain partition of its own where there are none.
        if isinstance(partition, SplitPartition):
            yield from self._rows(partition.split)

    def _rows(self, split: Split) -> "Iterator[pa.RecordBatch]":
        schema = arrow_schema(self._spark_schema)
        maker = RowMaker(self._options.topic, split.partition, schema)
        for decoded in open_log(self._options).read(split, decoded_columns(schema.names)):
            yield maker.rows(decoded)


def _check_schema(schema: "StructType") -> None:
    """A user's own `.schema(...)` may leave columns out and reorder them, but not change them."""
    for field in schema.fields:
        offered = COLUMN_TYPES.get(field.name)
        if offered is None:
            raise UserError(f"there is no column {field.name!r}; there are {_names()}")
        if field.dataType.simpleString() != offered.replace(" ", ""):
            wanted: Any = field.dataType.simpleString()
            raise UserError(f"column {field.name} is {offered}, and cannot be read as {wanted}")


def _names() -> str:
    return ", ".join(COLUMN_TYPES)
