"""The rows of a table as a DataFrame, and its files for other readers."""

import re
from typing import TYPE_CHECKING

from ottla.tables.layout import table_schema
from ottla.tables.manifest import FileRole
from ottla.tables.store import is_address
from ottla.tables.table_directory import TableDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")


def table_files(path: str) -> list[str]:
    """The paths of the Parquet files that are the table, for readers of any kind."""
    table = TableDirectory(path)
    return [f"{table.path}/{one}" for one in _row_files(table)]


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The rows of all committed loads, and no others."""
    table = TableDirectory(path)
    files = _row_files(table)
    schema = table_schema(table.layout().value_type)
    if not files:
        return spark.createDataFrame([], schema)
    if is_address(path):
        from ottla.spark.row_source import read_files

        return read_files(spark, table.store, files, schema)
    places = [spark_path(f"{table.path}/{one}", is_pattern=True) for one in files]
    return spark.read.schema(schema).parquet(*places)


def _row_files(table: TableDirectory) -> list[str]:
    return [file.path for file in table.current_files() if file.role is FileRole.ROWS]


def spark_path(path: str, *, is_pattern: bool = False) -> str:
    """A path of this machine for Spark, whatever its default file system; patterns are escaped."""
    escaped = _GLOB_CHARACTERS.sub(r"\\\1", path) if is_pattern else path
    return f"file://{escaped}"
