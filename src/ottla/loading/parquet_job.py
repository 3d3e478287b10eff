"""The Spark job of a load, and what any job of a table's needs: tasks that write Parquet files.

No task mixes partitions, so a file's footer tells its rows by partition and offset, and nothing
need be read again to know what was written. Spark writes none of it itself: so a table may lie
where Spark has no jar to write to, and no row crosses over to Java.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.base.errors import TaskError
from ottla.loading.split_writer import write_split
from ottla.loading.task import LoadTask
from ottla.sources.log_source import Split
from ottla.spark.task_errors import own_errors
from ottla.spark.worker import each_number
from ottla.tables.manifest import DataFile
from ottla.tables.parquet_files import read_footer
from ottla.tables.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1

Work = Callable[[], Sequence[str]]
"""Travels to a task; returns texts, as a rule the paths of files written."""

OnTasks = Callable[[int, int], None]
"""Hears how many tasks are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetJob:
    """The writing of one load."""

    store: TableStore
    task: LoadTask
    splits: Sequence[Split]

    def run(self, spark: "SparkSession", on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files; raises `UserError` or `TaskError` for what our own code refused."""
        work = [partial(write_split, self.task, split) for split in self.splits]
        return written_files(self.store, run_tasks(spark, work, on_tasks))


def written_files(store: TableStore, paths: Sequence[str]) -> tuple[DataFile, ...]:
    """What tasks say that they have written, by the footers; files without rows are left out."""
    try:
        found = [read_footer(store, path) for path in paths]
    except FileNotFoundError as error:
        raise TaskError(
            f"{error.filename or error}: a task has written it, and it is not here; a table's "
            f"place must be one that all machines of the cluster see"
        ) from error
    return tuple(file for file in found if file is not None)


def run_tasks(spark: "SparkSession", work: Sequence[Work], on_tasks: OnTasks) -> list[str]:
    """Does each piece of work in a task; returns the texts that they give back.

    Raises `UserError` or `TaskError` for what our own code refused.
    """
    found: list[str] = []
    if not work:
        return found

    def act(number: int) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"text": pa.array(work[number](), pa.string())})

    def collect() -> None:
        rows = each_number(spark, len(work), act, "text string").collect()
        found.extend(row.text for row in rows)

    with own_errors():
        if hasattr(spark, "_jsparkSession"):
            run_watched(spark, collect, on_tasks)
        else:
            collect()  # Spark Connect: there is nothing to watch.
    return found


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
