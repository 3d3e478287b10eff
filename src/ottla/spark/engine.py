"""Runs the tasks of loads and table optimizations as Spark tasks, and reports their progress."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.spark.session import SessionSettings, spark_session
from ottla.spark.task_errors import own_errors
from ottla.spark.worker import each_number
from ottla.tables import OnTasks, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1


class SparkEngine:
    """An `Engine` on the given or running session; otherwise on a new one, which is started for the
    first task and stopped at the end of the `with` block."""

    def __init__(
        self, given: "SparkSession | None" = None, settings: SessionSettings | None = None
    ) -> None:
        self._given = given
        self._settings = settings or SessionSettings()
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *error: Any) -> None:
        # The session may know better than the error why it was raised.
        self._stack.__exit__(*error)

    def start(self, *, is_short: bool) -> "SparkSession":
        if self._session is None:
            settings = replace(self._settings, is_short=is_short)
            self._session = self._stack.enter_context(spark_session(self._given, settings))
        return self._session

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        found: list[str] = []
        if not tasks:
            return found
        spark = self.start(is_short=True)

        def act(number: int) -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa

            yield pa.RecordBatch.from_pydict({"text": pa.array(tasks[number](), pa.string())})

        def collect() -> None:
            rows = each_number(spark, len(tasks), act, "text string").collect()
            found.extend(row.text for row in rows)

        with own_errors():
            if hasattr(spark, "_jsparkSession"):
                run_watched(spark, collect, on_tasks)
            else:
                collect()  # Spark Connect: there is nothing to watch.
        return found


def run_watched(spark: "SparkSession", act: Callable[[], None], on_tasks: OnTasks) -> None:
    """Runs a job in a separate thread, so that this one can report progress, or cancel it."""
    from pyspark import InheritableThread

    context = spark.sparkContext
    group = f"ottla-{secrets.token_hex(8)}"
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            context.setJobGroup(group, "ottla", interruptOnCancel=True)
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
