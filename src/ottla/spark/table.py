"""The rows of a table as a DataFrame, and its files for other readers."""

import re
from typing import TYPE_CHECKING

from ottla.table import files as table_files
from ottla.tables.layout import table_schema
from ottla.tables.manifest import FileRole
from ottla.tables.store import is_address
from ottla.tables.table_directory import TableDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table", "table_files"]

_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The rows of all committed loads, and no others."""
    table = TableDirectory(path)
    files = [file.path for file in table.current_files() if file.role is FileRole.ROWS]
    schema = table_schema(table.layout().value_type)
    if not files:
        return spark.createDataFrame([], schema)
    if is_address(path):
        from ottla.spark.row_source import read_files

        return read_files(spark, table.store, files, schema)
    # Whatever Spark's default file system is; and a path is a pattern to it.
    escaped = [_GLOB_CHARACTERS.sub(r"\\\1", f"{table.path}/{one}") for one in files]
    places = [f"file://{one}" for one in escaped]
    return spark.read.schema(schema).parquet(*places)
