"""The Spark job of a load: the data source's rows into Parquet files, one or more to a task.

Spark's own committer puts the files into the load's directory when all tasks are done; a task that
is tried again leaves nothing twice. No task mixes partitions, so a file's footer tells its rows by
partition and offset, and nothing need be read again to know what was written.
"""

import os
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ottla.spark.loading.quarantine import QUARANTINE_DIRECTORY
from ottla.spark.loading.task import LoadTask, format_task
from ottla.spark.table import spark_path
from ottla.spark.tables.layout import Partitioning
from ottla.spark.tables.manifest import DataFile, FileRole
from ottla.spark.task_errors import TaskError, own_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL_SETTINGS = {
    # Spark's default, INT96, has no statistics and is deprecated in Parquet itself.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.session.timeZone": "UTC",
}
WRITE_OPTIONS = {
    # Offsets never repeat and values seldom do: their dictionaries are built to be thrown away.
    "parquet.enable.dictionary#offset": "false",
    "parquet.enable.dictionary#value": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_POLL_SECONDS = 0.1

OnTasks = Callable[[int, int], None]
"""Hears how many tasks are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetJob:
    """`directory` is relative to the table, and not there yet."""

    table_path: str
    directory: str
    task: LoadTask
    compression: str
    partitioning: Partitioning | None = None

    def run(self, spark: "SparkSession", on_tasks: OnTasks) -> None:
        """Writes the files; raises `UserError` or `TaskError` for what our own code refused."""
        from pyspark.errors import PySparkException

        try:
            if hasattr(spark, "_jsparkSession"):
                run_watched(spark, lambda: self._write(spark.newSession()), on_tasks)
            else:
                # Spark Connect: there is nothing to watch, and no session beside this one.
                self._write(spark)
        except PySparkException as error:
            raise own_error(error) from error

    def files(self) -> tuple[DataFile, ...]:
        """What was written, from the footers; files without rows are left out."""
        return written_files(self.table_path, self.directory)

    def _write(self, spark: "SparkSession") -> None:
        from pyspark.sql.functions import col, date_format

        from ottla.spark.loading.source import TASK_OPTION, LoadSource

        for name, value in SQL_SETTINGS.items():
            spark.conf.set(name, value)
        spark.dataSource.register(LoadSource)
        rows = (
            spark.read.format(LoadSource.name()).option(TASK_OPTION, format_task(self.task)).load()
        )
        if self.partitioning is not None:
            columns = self.partitioning.unit.columns
            time = col(self.partitioning.column)
            rows = rows.withColumns(
                {name: date_format(time, pattern) for name, pattern in columns.items()}
            )
            writer = rows.write.partitionBy(*columns)
        else:
            writer = rows.write
        # Tasks may have put records aside there already, under names that Spark does not give.
        writer = writer.mode("append").options(compression=self.compression, **WRITE_OPTIONS)
        writer.parquet(spark_path(os.path.join(self.table_path, self.directory)))


def written_files(table_path: str, directory: str) -> tuple[DataFile, ...]:
    """The data files below a directory (relative to the table) that have rows."""
    whole = os.path.join(table_path, directory)
    found = [
        read_footer(table_path, os.path.relpath(os.path.join(place, name), table_path))
        for place, _, names in sorted(os.walk(whole))
        for name in sorted(names)
        if name.endswith(".parquet") and not name.startswith(".")
    ]
    return tuple(file for file in found if file is not None)


def read_footer(table_path: str, path: str) -> DataFile | None:
    """A data file as its footer describes it; `None` for one without rows.

    Raises `TaskError` when its rows are of more than one partition, or it tells nothing of them.
    """
    import pyarrow.parquet as pq

    whole_path = os.path.join(table_path, path)
    footer = pq.read_metadata(whole_path)
    if footer.num_rows == 0:
        return None
    first_partition, last_partition = _bounds(footer, "partition", whole_path)
    if first_partition != last_partition:
        raise TaskError(f"{whole_path}: rows of partitions {first_partition} to {last_partition}")
    first_offset, last_offset = _bounds(footer, "offset", whole_path)
    return DataFile(
        path=path,
        size=os.path.getsize(whole_path),
        row_count=footer.num_rows,
        partition=first_partition,
        first_offset=first_offset,
        last_offset=last_offset,
        role=_role(path),
        values=_values(path),
    )


def _role(path: str) -> FileRole:
    in_quarantine = QUARANTINE_DIRECTORY in path.split("/")[:-1]
    return FileRole.QUARANTINE if in_quarantine else FileRole.ROWS


def _values(path: str) -> dict[str, str]:
    """Columns that the path holds, as Hive names directories."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, sign, value in pairs if sign}


def _bounds(footer: Any, column: str, path: str) -> tuple[int, int]:
    # By leaf: structs before it count as many columns as they have fields.
    leaves = [footer.schema.column(number).path for number in range(footer.num_columns)]
    index = leaves.index(column)
    statistics = [
        footer.row_group(number).column(index).statistics for number in range(footer.num_row_groups)
    ]
    if any(one is None or not one.has_min_max for one in statistics):
        raise TaskError(f"{path}: the footer says nothing about column {column}")
    return min(one.min for one in statistics), max(one.max for one in statistics)


def run_watched(spark: "SparkSession", act: Callable[[], None], on_tasks: OnTasks) -> None:
    """Runs a job in a thread of its own, so that this one can tell how far it is, or cancel it."""
    from pyspark import InheritableThread

    context = spark.sparkContext
    group = f"ottla-{secrets.token_hex(8)}"
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            context.setJobGroup(group, "ottla load", interruptOnCancel=True)
            act()
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    thread = InheritableThread(run)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            on_tasks(*_tasks(context.statusTracker(), group))
    except BaseException:
        context.cancelJobGroup(group)
        thread.join()
        raise
    outcome.result()


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return (
        sum(stage.numCompletedTasks for stage in known),
        sum(stage.numTasks for stage in known),
    )
