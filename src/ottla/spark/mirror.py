"""The bulk of a mirror on Spark: one task for each partition that has something to copy.

Tasks read the source, a directory that they share or a cluster, and write segments beside the
target, whose file system they share too (`mirror.staging`). The target's owner, who runs this,
adopts the segments of all tasks when they are done; then an ordinary round copies what has come
since. So a job that fails has changed nothing but made empty topics.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from ottla.base.clock import SystemClock
from ottla.base.errors import ApiError
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.places import open_source
from ottla.mirror.plan import BulkCopy
from ottla.mirror.staging import Staged, StagedLog, adopt, discard_staging
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.spark.session import SessionSettings, spark_session
from ottla.spark.task_errors import own_errors
from ottla.spark.worker import each_number

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

RESULT = "task int, directory string, base_offsets array<bigint>, end_offset bigint, size bigint"


class Step(Enum):
    """The places between which a crash can fall; each is told when it has been reached.

    Those of tasks are told where the tasks run.
    """

    PLANNED = auto()
    TASK_COPYING = auto()
    TASK_STAGED = auto()
    ALL_STAGED = auto()
    SEGMENT_ADOPTED = auto()
    ALL_ADOPTED = auto()


OnStep = Callable[[Step], None]


def ignore(_: Step) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReport:
    """`size` in bytes; the seconds are those of the tasks, without Spark's start."""

    task_count: int
    size: int
    task_seconds: float
    adopt_seconds: float


def mirror_with_spark(
    source: str,
    target: str,
    options: MirrorOptions,
    *,
    spark: "SparkSession | None" = None,
    on_step: OnStep = ignore,
) -> BulkReport:
    """Copies what can be copied in bulk; `source` is a data directory or `HOST:PORT`.

    Without `spark` the process's session is used, or one is started. Raises `UserError`, and
    `TaskError` for what a task found damaged; the target's logs are as they were then.
    """
    copies = plan(source, target, options)
    on_step(Step.PLANNED)
    if not copies:
        return BulkReport(task_count=0, size=0, task_seconds=0.0, adopt_seconds=0.0)
    try:
        with spark_session(spark, SessionSettings(log_level="OFF")) as session:
            began = time.monotonic()
            staged = run_tasks(session, copies, task_of(source, target, copies, on_step))
        on_step(Step.ALL_STAGED)
        done = time.monotonic()
        adopt(target, staged, lambda: on_step(Step.SEGMENT_ADOPTED))
        on_step(Step.ALL_ADOPTED)
    finally:
        discard_staging(target)
    return BulkReport(
        task_count=len(copies),
        size=sum(one.size for one in staged),
        task_seconds=done - began,
        adopt_seconds=time.monotonic() - done,
    )


def plan(source: str, target: str, options: MirrorOptions) -> list[BulkCopy]:
    """The copies that tasks are to make; the target is open only meanwhile."""
    clock = SystemClock()
    with (
        closing(open_source(source, sleep=time.sleep)) as opened,
        Target.open(target, clock) as copy,
    ):
        throttle = Throttle(None, clock, time.sleep)
        return Mirror(opened, copy, options, throttle=throttle).plan_bulk()


Task = Callable[[int], "Iterator[pa.RecordBatch]"]


def run_tasks(spark: "SparkSession", copies: Sequence[BulkCopy], task: Task) -> list[Staged]:
    """One task a copy; raises `UserError` or `TaskError` for what our own code refused."""
    with own_errors():
        rows = each_number(spark, len(copies), task, RESULT).collect()
    return [
        Staged(
            copy=copies[row.task],
            directory=row.directory,
            base_offsets=tuple(row.base_offsets),
            end_offset=row.end_offset,
            size=row.size,
        )
        for row in rows
    ]


def task_of(source: str, target: str, copies: Sequence[BulkCopy], on_step: OnStep) -> Task:
    """What Spark runs: the number of a copy in, what was staged out."""
    fields = [asdict(copy) for copy in copies]

    def run(number: int) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        staged = _stage(source, target, BulkCopy(**fields[number]), on_step)
        row = {"task": number, **_told(staged)}
        yield pa.RecordBatch.from_pylist([row], schema=_result_schema())

    return run


def _stage(source: str, target: str, copy: BulkCopy, on_step: OnStep) -> Staged:
    log = StagedLog(target, copy)
    with closing(open_source(source, sleep=time.sleep)) as opened:
        place = f"{opened.name}, {copy.topic}-{copy.partition}"
        # Overtaken by retention, what was read is adopted; the round that follows says what is
        # missing, or goes on without it.
        with suppress(ApiError):
            for records in opened.batches(
                copy.topic, copy.partition, copy.from_offset, copy.until_offset
            ):
                log.append(records, place)
                on_step(Step.TASK_COPYING)
    staged = log.finish()
    on_step(Step.TASK_STAGED)
    return staged


def _told(staged: Staged) -> dict[str, Any]:
    return {
        "directory": staged.directory,
        "base_offsets": list(staged.base_offsets),
        "end_offset": staged.end_offset,
        "size": staged.size,
    }


def _result_schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            ("task", pa.int32()),
            ("directory", pa.string()),
            ("base_offsets", pa.list_(pa.int64())),
            ("end_offset", pa.int64()),
            ("size", pa.int64()),
        ]
    )
