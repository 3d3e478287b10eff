"""The bulk copy of a mirror on Spark: one task for each partition with records to copy.

Tasks read the source, a shared directory or a cluster, and write segments next to the target, on a
file system that they share too (`mirror.staging`). This process, which owns the target, adopts the
segments of all tasks when they are done; then an ordinary round copies later records. So a failed
job leaves nothing but empty topics.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.clock import SystemClock
from ottla.base.errors import ApiError
from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.mirror.endpoints import Access, open_source
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.plan import BulkCopy
from ottla.mirror.source import Source
from ottla.mirror.staging import Staged, StagedLog, adopt, discard_staging
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.spark.engine import SparkEngine
from ottla.spark.session import SessionSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PLAIN = Access()


class Step(Enum):
    """Steps between which a crash can happen; each is reported when it is done.

    The steps of tasks are reported in the tasks' processes.
    """

    PLANNED = auto()
    TASK_COPYING = auto()
    TASK_STAGED = auto()
    ALL_STAGED = auto()
    SEGMENT_ADOPTED = auto()
    ALL_ADOPTED = auto()


OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReport:
    """`size` in bytes; `task_seconds` excludes Spark's start."""

    task_count: int
    size: int
    task_seconds: float


def mirror_with_spark(
    source: str,
    target: str,
    options: MirrorOptions,
    *,
    access: Access = PLAIN,
    spark: "SparkSession | None" = None,
    on_step: OnStep = pass_over,
) -> BulkReport:
    """Copies what can be copied in bulk; `source` is a data directory or `HOST:PORT`.

    Without `spark` the process's session is used, or one is started. Raises `UserError`, and
    `TaskError` for damage that a task found; the target's logs are then unchanged.
    """
    copies = plan(source, target, options, access)
    on_step(Step.PLANNED)
    if not copies:
        return BulkReport(task_count=0, size=0, task_seconds=0.0)
    try:
        with SparkEngine(spark, SessionSettings(log_level="OFF")) as engine:
            engine.start(is_short=False)
            began = time.monotonic()
            work = [partial(_stage, (source, access), target, copy, on_step) for copy in copies]
            texts = engine.run(work, lambda *_: None)
            staged = [_staged(copy, text) for copy, text in zip(copies, texts, strict=True)]
        on_step(Step.ALL_STAGED)
        task_seconds = time.monotonic() - began
        adopt(target, staged, lambda: on_step(Step.SEGMENT_ADOPTED))
        on_step(Step.ALL_ADOPTED)
    finally:
        discard_staging(target)
    return BulkReport(
        task_count=len(copies),
        size=sum(one.size for one in staged),
        task_seconds=task_seconds,
    )


def plan(
    source: str, target: str, options: MirrorOptions, access: Access = PLAIN
) -> list[BulkCopy]:
    """Returns the copies for the tasks; the target is open only during the planning."""
    clock = SystemClock()
    with (
        closing(_opened(source, access)) as opened,
        Target.open(target, clock) as copy,
    ):
        throttle = Throttle(None, clock, time.sleep)
        return Mirror(opened, copy, options, throttle=throttle).plan_bulk()


def _opened(source: str, access: Access) -> Source:
    return open_source(source, sleep=time.sleep, security=access.security, tier=access.tier)


def _stage(source: tuple[str, Access], target: str, copy: BulkCopy, on_step: OnStep) -> list[str]:
    """Runs in a task: copies a partition, and returns what was staged as JSON."""
    log = StagedLog(target, copy)
    with closing(_opened(*source)) as opened:
        place = f"{opened.name}, {copy.topic}-{copy.partition}"
        # If retention deletes the rest, what was read is adopted; the next round reports the
        # missing records, or continues without them.
        with suppress(ApiError):
            for records in opened.batches(
                copy.topic, copy.partition, copy.from_offset, copy.until_offset
            ):
                log.append(records, place)
                on_step(Step.TASK_COPYING)
    staged = log.finish()
    on_step(Step.TASK_STAGED)
    fields = {field.name: getattr(staged, field.name) for field in dataclasses.fields(staged)}
    return [json.dumps({name: value for name, value in fields.items() if name != "copy"})]


def _staged(copy: BulkCopy, text: str) -> Staged:
    fields = json.loads(text)
    return Staged(copy=copy, **{**fields, "base_offsets": tuple(fields["base_offsets"])})
