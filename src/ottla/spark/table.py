"""The rows of a table as a DataFrame, without a jar, and its files for other readers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.patterns import lazy_pattern
from ottla.objects.addresses import is_address
from ottla.table import Moment
from ottla.table import files as table_files
from ottla.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table", "table_files"]

_GLOB_CHARACTERS = lazy_pattern(r"([\\{}\[\]*?])")


def read_table(
    spark: "SparkSession",
    path: str,
    *,
    version: int | None = None,
    time_ms: int | None = None,
    offsets: Mapping[int, int] | None = None,
) -> "DataFrame":
    """The rows of all committed loads, currently or at another moment of the table.

    The moment is a `version`, a time, or when the log ended at `offsets` (by partition).
    """
    table = Table(path)
    table.require()
    moment = Moment(version=version, time_ms=time_ms, offsets=offsets)
    files = moment.files_of(table)
    layout = table.layout()
    schema, prefix = layout.row_schema, "_" if layout.is_flat else ""
    rows = _rows(spark, table, files, schema)
    if offsets is None:
        return rows
    wanted = [
        f"({prefix}partition = {number} AND {prefix}offset < {end})"
        for number, end in offsets.items()
    ]
    return rows.where(" OR ".join(wanted) or "false")


def _rows(spark: "SparkSession", table: Table, files: list[str], schema: str) -> "DataFrame":
    if not files:
        return spark.createDataFrame([], schema)
    if is_address(table.path):
        from ottla.spark.row_source import read_files

        return read_files(spark, table.store, files, schema)
    # Spark's default file system may be another one, and it treats paths as patterns.
    escaped = [_GLOB_CHARACTERS.sub(r"\\\1", f"{table.path}/{one}") for one in files]
    return spark.read.schema(schema).parquet(*(f"file://{one}" for one in escaped))
