"""The Spark job of a table's compaction: each group of files into one, in order of offset."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from ottla.spark.loading.parquet_job import (
    SQL_SETTINGS,
    WRITE_OPTIONS,
    OnTasks,
    run_watched,
    written_files,
)
from ottla.spark.table import spark_path
from ottla.spark.tables.data_files import read_columns
from ottla.spark.tables.manifest import DataFile
from ottla.spark.task_errors import TaskError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS_PER_JOB = 64
"""Groups of one job: Spark's plan of more grows slow to make."""

_SETTINGS = {
    **SQL_SETTINGS,
    # Values may hold maps; rows are copied, so even the order of their keys stays.
    "spark.sql.legacy.allowHashOnMapType": "true",
    # One task for each group, rather than one for all of them.
    "spark.sql.unionOutputPartitioning": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """`groups` of files with one schema and place each; `directory` is relative to the table."""

    table_path: str
    directory: str
    groups: Sequence[Sequence[DataFile]]
    compression: str

    def run(self, spark: "SparkSession", on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files, and tells them by their footers."""
        if hasattr(spark, "_jsparkSession"):
            session = _session(spark)
            run_watched(spark, lambda: self._write(session), on_tasks)
        else:
            # Spark Connect: there is nothing to watch, and no session beside this one.
            self._write(_set(spark))
        return written_files(self.table_path, self.directory)

    def check(self, spark: "SparkSession", files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless all rows, and no others, are in the new files."""
        session = _session(spark) if hasattr(spark, "_jsparkSession") else _set(spark)
        old = self._sums(session, [file for group in self.groups for file in group])
        new = self._sums(session, files)
        if old != new:
            differing = sorted(key for key in old | new if old.get(key) != new.get(key))
            raise TaskError(
                f"{self.directory}: the rows written are not those read (of partition "
                f"{differing[0][1]}, for one); the table is as it was, run it again"
            )

    def _write(self, session: "SparkSession") -> None:
        for (place, _), groups in self._alike(self.groups).items():
            schema = self._frame(session, groups[0][:1]).schema
            for first in range(0, len(groups), GROUPS_PER_JOB):
                frames = [
                    self._frame(session, group, schema).coalesce(1).sortWithinPartitions("offset")
                    for group in groups[first : first + GROUPS_PER_JOB]
                ]
                target = spark_path(os.path.join(self.table_path, self.directory, place))
                writer = reduce(lambda one, other: one.union(other), frames).write.mode("append")
                writer.options(compression=self.compression, **WRITE_OPTIONS).parquet(target)

    def _alike(
        self, groups: Sequence[Sequence[DataFile]]
    ) -> dict[tuple[str, str], list[Sequence[DataFile]]]:
        """Groups by their place below the commit's directory, and their columns."""
        found: dict[tuple[str, str], list[Sequence[DataFile]]] = {}
        for group in groups:
            key = inner_place(group[0]), columns_of(self.table_path, group[0])
            found.setdefault(key, []).append(group)
        return found

    def _frame(
        self, session: "SparkSession", files: Sequence[DataFile], schema: Any = None
    ) -> "DataFrame":
        paths = [
            spark_path(os.path.join(self.table_path, file.path), is_pattern=True) for file in files
        ]
        reader = session.read if schema is None else session.read.schema(schema)
        return reader.parquet(*paths)

    def _sums(
        self, session: "SparkSession", files: Sequence[DataFile]
    ) -> dict[tuple[str, int], tuple[int, Any]]:
        """By place and partition: how many rows, and the sum of their hashes."""
        from pyspark.sql.functions import count, lit, xxhash64
        from pyspark.sql.functions import sum as sum_of

        found: dict[tuple[str, int], tuple[int, Any]] = {}
        for (place, _), alike in self._alike([[file] for file in files]).items():
            rows = self._frame(session, [file for group in alike for file in group])
            hashed = sum_of(xxhash64(*rows.columns).cast("decimal(20,0)"))
            for partition, rows_here, total in (
                rows.groupBy("partition").agg(count(lit(1)), hashed).collect()
            ):
                rows_before, before = found.get((place, partition), (0, 0))
                found[place, partition] = rows_before + rows_here, before + total
        return found


def inner_place(file: DataFile) -> str:
    """Where a file lies below its commit's directory: `day=2026-01-31`, or nothing."""
    return "/".join(file.path.split("/")[2:-1])


def columns_of(table_path: str, file: DataFile) -> str:
    """A text that is the same for files with the same columns; raises `CorruptionError`."""
    return str(read_columns(table_path, file))


def _session(spark: "SparkSession") -> "SparkSession":
    return _set(spark.newSession())


def _set(session: "SparkSession") -> "SparkSession":
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session
