"""Writes the files of a load, which readers do not see yet.

No row group mixes partitions, so a file's footer gives its rows by partition and offset, and no
file is read again to verify it. Ottla's tasks write the files, not the engine: so a table may lie
in a store that Spark cannot write to, and no row passes through Java.
"""

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import cpu_count

from ottla.base.errors import TaskError, UserError
from ottla.base.values import dataclass
from ottla.loading.job import LoadJob, LoadPlan, Progress, Step
from ottla.loading.sampling import (
    parquet_row_size,
    sample_of,
    with_grown_schema,
    with_inferred_schema,
)
from ottla.loading.split_writer import shared_out, task_splits, write_splits
from ottla.loading.task import LoadTask
from ottla.loading.widening import widen_files
from ottla.sources.log_source import Split
from ottla.tables.layout import TableLayout
from ottla.tables.ledger_entries import DataFile
from ottla.tables.parquet_files import ParquetStyle, read_footer
from ottla.tables.store import TableStore
from ottla.tables.table_directory import PinnedLayout
from ottla.tables.transaction_log import CommitTakenError

SHORT_LOAD = 1_000_000
"""Records below which starting Java's second compiler does not pay."""


LEAST_ROWS = 20_000
"""Rows below which a separate task costs more than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The files that tasks have written. `directory` is relative to the table.

    `pinned` is the layout that the commit sets; `None` if it sets none, since there are no records.
    """

    layout: TableLayout
    pinned: PinnedLayout | None = None
    directory: str = ""
    files: tuple[DataFile, ...] = ()
    seconds: float = 0.0
    start_seconds: float = 0.0
    """The seconds that the engine took to start before that."""

    def style(self, compression: str) -> ParquetStyle:
        """The style of further files of the same commit."""
        if self.pinned is None:
            return ParquetStyle(compression=compression)
        return self.pinned.style(compression)


def write_files(job: LoadJob, plan: LoadPlan) -> WrittenFiles:
    """Settles the layout and writes the files.

    Raises `UserError` or `TaskError`, and `CommitTakenError` after a commit that widened the
    table's files.
    """
    if not plan.offset_count:
        pinned = _pinned_without_records(job, plan.state.layout) if plan.begins_table else None
        return WrittenFiles(layout=plan.state.layout, pinned=pinned)
    layout, row_size = _settled(job, plan)
    if widen_files(job, plan, layout):
        raise CommitTakenError(f"{job.table.address}: its column types were widened; run it again")
    pinned = job.table.pinned(layout)
    is_short = plan.offset_count < SHORT_LOAD and not job.options.is_long
    asked = time.monotonic()
    job.engine.start(is_short=is_short)
    started = time.monotonic()
    directory = job.table.load_directory(plan.state.commit_id, secrets.token_bytes(4), plan.action)
    writing = Progress(step=Step.WRITING, offset_count=plan.offset_count)
    job.progress(writing)
    task = _task(job, plan, pinned, directory)
    paths = job.engine.run(
        [partial(write_splits, task, splits) for splits in _splits(job, plan, row_size)],
        lambda done, count: job.progress(replace(writing, tasks_done=done, task_count=count)),
    )
    files = written_files(job.table.store, paths, with_keys=layout.is_latest)
    job.progress(replace(writing, step=Step.WRITTEN))
    return WrittenFiles(
        layout=layout,
        pinned=pinned,
        directory=directory,
        files=files,
        seconds=time.monotonic() - started,
        start_seconds=started - asked,
    )


def written_files(
    store: TableStore, paths: Sequence[str], *, with_keys: bool = False
) -> tuple[DataFile, ...]:
    """The footers of the files that tasks have written; files without rows are left out."""
    try:
        return tuple(
            part for path in paths for part in read_footer(store, path, with_keys=with_keys)
        )
    except FileNotFoundError as error:
        raise TaskError(
            f"{error.filename or error}: a task wrote this file, but it is not here; a table's "
            f"place must be visible to all machines of the cluster"
        ) from error


def _settled(job: LoadJob, plan: LoadPlan) -> tuple[TableLayout, float]:
    """The layout and row size, estimated from the first records where necessary."""
    layout, row_size = plan.state.layout, plan.state.row_size
    is_growing = job.options.layout.is_growing and not layout.is_inferred
    if row_size is None or layout.is_inferred or is_growing:
        sample = sample_of(job.log, plan.ranges)
        row_size = row_size or parquet_row_size(sample)
        if layout.is_inferred:
            layout = with_inferred_schema(layout, sample)
        elif is_growing:
            layout = with_grown_schema(layout, sample, plan.state.commit_id)
    return layout, row_size


def _pinned_without_records(job: LoadJob, layout: TableLayout) -> PinnedLayout:
    """The layout of a first load that only notes where the table begins."""
    if layout.is_inferred:
        raise UserError(
            f"{job.place.topic}: there is no record yet to infer a schema from; give --schema"
        )
    return job.table.pinned(layout)


def _splits(job: LoadJob, plan: LoadPlan, row_size: float) -> list[list[Split]]:
    """The splits that each task reads."""
    count = rows_per_task(
        plan.offset_count, row_size, job.options.target_size, job.options.min_partitions
    )
    ranges = {one.place: one.offsets for one in plan.ranges if not one.is_empty}
    return shared_out(task_splits(job.log, ranges, count), count)


def rows_per_task(count: int, row_size: float, target_size: int, min_tasks: int | None) -> int:
    """The maximum number of offsets that a task reads.

    It makes files of the target size; less if cores would be idle.
    """
    fair = math.ceil(count / (min_tasks or cpu_count() or 1))
    wanted = max(1, int(target_size / max(row_size, 1.0)))
    return max(1, min(wanted, fair if min_tasks else max(fair, LEAST_ROWS)))


def _task(job: LoadJob, plan: LoadPlan, pinned: PinnedLayout, directory: str) -> LoadTask:
    layout = pinned.layout
    return LoadTask(
        read=job.read,
        topic=job.place.topic,
        table=job.table.path,
        directory=directory,
        commit_id=plan.state.commit_id,
        decoding=layout.record_decoding,
        login=job.options.layout.login,
        on_error=job.options.on_error,
        style=pinned.style(job.options.compression),
        partitioning=layout.partitioning,
        is_latest=layout.is_latest,
        partition_count=len(plan.ranges),
    )
