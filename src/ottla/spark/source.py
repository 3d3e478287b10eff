"""The data source `ottla`: `spark.read.format("ottla")` over segment files or a broker, no jar.

Options: `options.py`. Columns: those of Spark's own Kafka source, so that a job written for that
source runs unchanged. Spark creates an `OttlaSource` in its planning process and in every task;
they share nothing but the content of a task's `SplitPartition`.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.base.errors import OttlaError, UserError
from ottla.sources.opening import open_log
from ottla.sources.options import ReadOptions
from ottla.sources.pruning import Condition, prune, read_filters
from ottla.sources.ranges import resolve_ranges
from ottla.spark.plain_errors import plain_errors
from ottla.spark.read_options import batch_options, schema_options, stream_options
from ottla.spark.restarts import warn_if_slow
from ottla.spark.split_reader import SplitPartition, check_schema, read_partition, split_options
from ottla.spark.worker import hang_up_quietly_in_daemon, quieten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from ottla.spark.sink.writer import OttlaStreamWriter, OttlaWriter
    from ottla.spark.stream import OttlaStreamReader, RefusedStreamReader

NO_TABLE = (
    "Spark does not pass the options of CREATE TABLE to a source; CREATE TEMP VIEW orders USING "
    "ottla OPTIONS (...) keeps them, and SELECT ... FROM orders WITH (...) gives them once"
)

_FILTERING_PROCESS = "pyspark.sql.worker.data_source_pushdown_filters"

# Every process that plans imports this module first, and Java may close its pipe at any time.
hang_up_quietly_in_daemon()


class OttlaSource(DataSource):  # type: ignore[misc]
    """Registered as `ottla` by `import pyspark_ottla`, or by Spark itself if it can import that."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    @plain_errors()
    def schema(self) -> str:
        quieten()
        self._check_path()
        return schema_options(self.options).spark_schema

    def _check_path(self) -> None:
        """Spark sets the path of a table as an address, and does not pass it to the reader."""
        if self.options.get("path", "").startswith("file:"):
            raise UserError(f"path {self.options['path']}: {NO_TABLE}")

    @plain_errors()
    def reader(self, schema: "StructType") -> "OttlaReader":
        quieten()
        if not self.options:
            raise UserError(f"the options of CREATE TABLE are not known here: {NO_TABLE}")
        kind = FilteringReader if _takes_filters() else OttlaReader
        return kind(batch_options(self.options), schema)

    def streamReader(  # noqa: N802
        self, schema: "StructType"
    ) -> "OttlaStreamReader | RefusedStreamReader":
        from ottla.spark.stream import OttlaStreamReader, RefusedStreamReader

        quieten()
        warn_if_slow()
        try:
            return OttlaStreamReader(stream_options(self.options), schema)
        except OttlaError as error:
            # Spark stops the reader that it then lacks, and tells of that fault of its own alone.
            return RefusedStreamReader(error)

    @plain_errors()
    def writer(self, schema: "StructType", overwrite: bool) -> "OttlaWriter":
        from ottla.spark.sink.writer import OttlaWriter

        return OttlaWriter(self.options, schema, overwrite)

    @plain_errors()
    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> "OttlaStreamWriter":
        from ottla.spark.sink.writer import OttlaStreamWriter

        # `overwrite` is output mode complete, whose batches are appended, as by Spark's Kafka sink.
        return OttlaStreamWriter(self.options, schema)


class OttlaReader(DataSourceReader):  # type: ignore[misc]
    """One batch read: offsets are resolved once, in `partitions`."""

    conditions: tuple[Condition, ...] = ()

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        check_schema(schema)
        self._options = options
        self._spark_schema = schema

    @plain_errors()
    def partitions(self) -> list[SplitPartition]:
        options = self._options
        log = open_log(options)
        ranges = resolve_ranges(options, log, log.partitions())
        pruned = prune(ranges, self.conditions, log)
        return [SplitPartition(split) for split in log.splits(pruned, split_options(options))]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        yield from read_partition(self._options, partition, self._spark_schema)


class FilteringReader(OttlaReader):
    """A reader that gets Spark's filters. Spark rejects it if filter pushdown is disabled."""

    def pushFilters(self, filters: "list[Filter]") -> "list[Filter]":  # noqa: N802
        """Records the filters by which files can be pruned, and leaves the filtering itself to
        Spark.
        """
        self.conditions = read_filters(filters)
        return filters


def _takes_filters() -> bool:
    """Whether this is the process that Spark starts to push filters, if that is enabled.

    Spark does not pass `spark.sql.python.filterPushdown.enabled` to a source.
    """
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _FILTERING_PROCESS in sys.modules or getattr(started, "name", "") == _FILTERING_PROCESS
