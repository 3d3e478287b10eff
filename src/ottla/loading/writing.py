"""Writes the files of a load, which readers do not see yet.

No row group mixes partitions, so a file's footer gives its rows by partition and offset, and no
file is read again to verify it. Ottla's tasks write the files, not the engine: so a table may lie
in a store that Spark cannot write to, and no row passes through Java.
"""

import math
import time
from dataclasses import replace
from functools import partial
from os import cpu_count

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.loading.deletes import deletes_of
from ottla.loading.job import LoadJob, LoadPlan
from ottla.loading.sampling import parquet_row_size, sample_of
from ottla.loading.split_tasks import tasks_of, write_splits
from ottla.tables import (
    LEAST_ROWS,
    DataFile,
    Progress,
    Step,
    TableLayout,
    Transaction,
    begin,
    needs_sample,
    record_writer,
    sampled_layout,
)

SHORT_LOAD = 1_000_000
"""Records below which starting Java's second compiler does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The files that tasks have written for a transaction."""

    transaction: Transaction
    files: tuple[DataFile, ...] = ()
    seconds: float = 0.0
    start_seconds: float = 0.0
    """The seconds that the engine took to start before that."""


def write_files(job: LoadJob, plan: LoadPlan) -> WrittenFiles:
    """Settles the layout and writes the files.

    Raises `UserError` or `TaskError`, and `CommitTakenError` after a commit that widened the
    table's files.
    """
    if not plan.offset_count:
        return WrittenFiles(transaction=_without_records(job, plan))
    layout, row_size = _settled(job, plan)
    transaction = begin(job.table, plan.state, job.write_options, action=plan.action, layout=layout)
    is_short = plan.offset_count < SHORT_LOAD and not job.options.is_long
    asked = time.monotonic()
    job.engine.start(is_short=is_short)
    started = time.monotonic()
    writing = Progress(step=Step.WRITING, offset_count=plan.offset_count)
    job.progress(writing)
    writer = record_writer(
        transaction,
        job.route.topic,
        len(plan.ranges),
        on_error=job.options.on_error,
        login=job.options.layout.login,
        deletes=deletes_of(layout),
    )
    count = rows_per_task(
        plan.offset_count, row_size, job.options.target_size, job.options.min_partitions
    )
    ranges = {one.place: one.offsets for one in plan.ranges if not one.is_empty}
    paths = job.engine.run(
        [
            partial(write_splits, job.read_in_tasks, writer, some)
            for some in tasks_of(job.log, ranges, count)
        ],
        lambda done, count: job.progress(replace(writing, tasks_done=done, task_count=count)),
    )
    files = transaction.written(paths)
    job.progress(replace(writing, step=Step.WRITTEN))
    return WrittenFiles(
        transaction=transaction,
        files=files,
        seconds=time.monotonic() - started,
        start_seconds=started - asked,
    )


def _without_records(job: LoadJob, plan: LoadPlan) -> Transaction:
    """A commit that sets a layout only if it is the first, which notes where the table begins."""
    layout = plan.state.layout
    if plan.begins_table and layout.is_inferred:
        raise UserError(
            f"{job.route.topic}: there is no record yet to infer a schema from; give --schema"
        )
    return begin(
        job.table,
        plan.state,
        job.write_options,
        action=plan.action,
        layout=layout if plan.begins_table else None,
    )


def _settled(job: LoadJob, plan: LoadPlan) -> tuple[TableLayout, float]:
    """The layout and row size, estimated from the first records where necessary."""
    layout, row_size = plan.state.layout, plan.state.row_size
    asked = job.options.layout
    if row_size is not None and not needs_sample(layout, asked):
        return layout, row_size
    sample = sample_of(job.log, plan.ranges)
    layout = sampled_layout(layout, asked, sample, plan.state.commit_count)
    return layout, row_size or parquet_row_size(sample)


def rows_per_task(count: int, row_size: float, target_size: int, min_tasks: int | None) -> int:
    """The maximum number of offsets that a task reads.

    It makes files of the target size; less if cores would be idle.
    """
    fair = math.ceil(count / (min_tasks or cpu_count() or 1))
    wanted = max(1, int(target_size / max(row_size, 1.0)))
    return max(1, min(wanted, fair if min_tasks else max(fair, LEAST_ROWS)))
