"""A table's rows for Spark if the table is in an object store, for which Spark would need a jar.

Each task reads one file with pyarrow. All columns are read, unlike with Spark's own reader, which
reads tables in directories, and skips columns that a query does not use.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.spark.split_reader import arrow_schema
from ottla.tables import TableStore, open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class TableSource(DataSource):  # type: ignore[misc]
    """Registered by `read_files`; its options are a table, the paths of its files, and columns."""

    @classmethod
    def name(cls) -> str:
        return "ottla_table"

    def schema(self) -> str:
        return str(self.options["columns"])

    def reader(self, schema: "StructType") -> "TableReader":
        return TableReader(self.options["table"], json.loads(self.options["files"]), schema)


class FilePartition(InputPartition):  # type: ignore[misc]
    """A file's path, relative to the table."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Spark creates one in every task."""

    def __init__(self, table: str, files: Sequence[str], schema: "StructType") -> None:
        self._table = table
        self._files = files
        self._schema = schema

    def partitions(self) -> list[FilePartition]:
        return [FilePartition(path) for path in self._files]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow.dataset

        # If there are no partitions, Spark passes a plain `InputPartition`.
        if isinstance(partition, FilePartition):
            store = open_store(self._table)
            # A dataset, since it fills columns that an older file lacks with nulls.
            rows = pyarrow.dataset.dataset(
                [store.arrow_path(partition.path)],
                schema=arrow_schema(self._schema),
                format="parquet",
                filesystem=store.arrow(),
            )
            yield from rows.to_batches()


def read_files(
    spark: "SparkSession", store: TableStore, files: Sequence[str], columns: str
) -> "DataFrame":
    """The rows of some files of a table; `columns` is a schema in Spark's syntax."""
    spark.dataSource.register(TableSource)
    reader = spark.read.format(TableSource.name())
    given = {"table": store.address, "files": json.dumps(list(files)), "columns": columns}
    return reader.options(**given).load()
