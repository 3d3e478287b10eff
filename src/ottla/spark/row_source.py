"""A table's rows for Spark where Spark itself has no way to its files: an object store, no jar.

Its tasks read the files with pyarrow, one each. All columns cross over; where a directory of this
machine is read, Spark's own reader leaves out what a query does not ask for.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.spark.split_reader import arrow_schema
from ottla.tables.store import TableStore, open_store

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
    """Spark makes one in every task."""

    def __init__(self, table: str, files: Sequence[str], schema: "StructType") -> None:
        self._table = table
        self._files = files
        self._schema = schema

    def partitions(self) -> list[FilePartition]:
        return [FilePartition(path) for path in self._files]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow.dataset

        # Spark makes a plain partition of its own where there are none.
        if isinstance(partition, FilePartition):
            store = open_store(self._table)
            # A dataset, since that puts nulls where a file is older than a column.
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
    """The rows of some files of a table; `columns` in Spark's words."""
    spark.dataSource.register(TableSource)
    reader = spark.read.format(TableSource.name())
    given = {"table": store.address, "files": json.dumps(list(files)), "columns": columns}
    return reader.options(**given).load()
