"""Rewrites existing files with wider numbers before a load changes a column from `int` to `bigint`.

This is a commit of its own, like a compaction: it replaces the narrower files with copies and pins
the layout. After a crash before the commit, the next load with the wider type starts again. So no
reader finds a file that is narrower than its column, except after a crash between Delta's two
transactions, until the next command that writes to the table (`delta.py`). In formats whose readers
widen values (Iceberg) nothing is rewritten.

Delta Lake marks files of a narrower type by a feature that its library cannot set. Readers that do
not support this feature may omit rows: Spark before 3.5.1 and 3.4.2 compares the bounds of `int`
with a `bigint` truncated to 32 bits (SPARK-46092).
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import TaskError
from ottla.base.values import dataclass
from ottla.loading.job import LoadJob, LoadPlan, Progress, Step
from ottla.tables.data_files import part_batches, read_columns
from ottla.tables.layout import TableLayout
from ottla.tables.ledger_entries import (
    Action,
    DataFile,
    FileRole,
    LedgerEntry,
    place_like,
    total_size,
)
from ottla.tables.parquet_files import (
    ParquetOutput,
    ParquetStyle,
    open_parquet,
    read_footer,
    sorted_column,
)
from ottla.tables.store import TableStore, open_store
from ottla.tables.table_directory import PinnedLayout, columns_of
from ottla.tables.transaction_log import CommitTakenError, whole_files
from ottla.tables.widening import is_narrower, widened_schema

if TYPE_CHECKING:
    import pyarrow as pa

BUNDLE_SIZE = 64 * 1024 * 1024
"""Bytes of small files that one task rewrites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """The values that each task needs. `directory` is relative to the table."""

    table: str
    directory: str
    columns: "pa.Schema"
    style: ParquetStyle

    def write(self, files: Sequence[DataFile]) -> list[str]:
        """Rewrites the narrower files; returns pairs of a file's path and the path of its copy."""
        store = open_store(self.table)
        done: list[str] = []
        for file in files:
            name = f"part-{file.partition}-{file.first_offset}-{secrets.token_hex(4)}.parquet"
            target = f"{place_like(file, self.directory)}/{name}"
            if widen_file(store, file.path, target, self.columns, self.style):
                done += [file.path, target]
        return done


def widen_files(job: LoadJob, plan: LoadPlan, layout: TableLayout) -> bool:
    """Rewrites narrower files; returns whether it committed, so that the load must be planned
    again.
    """
    commit_id, table = plan.state.commit_id, job.table
    is_new = bool(layout.decodings) and layout.decodings[-1].since_commit == commit_id > 0
    if not is_new or table.log.is_widened_by_readers:
        return False
    columns = columns_of(layout)
    if not is_narrower(columns_of(table.layout()), columns):
        return False
    files = [one for one in table.current_files() if one.role is FileRole.ROWS]
    widening = Widening(
        table=table.path,
        directory=table.load_directory(commit_id, secrets.token_bytes(4), Action.COMPACT),
        columns=columns,
        style=ParquetStyle(compression=job.options.compression),
    )
    done = _run(job, widening, files)
    if not done:
        return False
    old = [part for part in files if part.path in done]
    new = [part for path in done.values() for part in _footer(job, path, layout)]
    _check(widening, old, new)
    table.store.sync(list(done.values()))
    _commit(job, commit_id, table.pinned(layout), old, new)
    return True


def _run(job: LoadJob, widening: Widening, files: Sequence[DataFile]) -> dict[str, str]:
    """The paths of narrower files, with the paths of their copies."""
    row_count = sum(one.row_count for one in files)
    progress = Progress(step=Step.WRITING, offset_count=row_count, is_widening=True)
    job.progress(progress)
    job.engine.start(is_short=total_size(files) < BUNDLE_SIZE)
    found = job.engine.run(
        [partial(widening.write, some) for some in _bundles(files)],
        lambda done, count: job.progress(replace(progress, tasks_done=done, task_count=count)),
    )
    return dict(zip(found[::2], found[1::2], strict=True))


def _bundles(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """The files that each task rewrites, each represented by its first part."""
    bundles: list[list[DataFile]] = []
    room = 0
    for first, *_ in whole_files(files):
        if not bundles or first.size > room:
            bundles.append([])
            room = BUNDLE_SIZE
        bundles[-1].append(first)
        room -= first.size
    return bundles


def _footer(job: LoadJob, path: str, layout: TableLayout) -> list[DataFile]:
    return read_footer(job.table.store, path, with_keys=layout.is_latest)


def _check(widening: Widening, old: Iterable[DataFile], new: Iterable[DataFile]) -> None:
    before, after = (
        sorted((one.partition, one.first_offset, one.last_offset, one.row_count) for one in some)
        for some in (old, new)
    )
    if before != after:
        raise TaskError(
            f"{widening.directory}: the written rows differ from those read; the table is "
            f"unchanged, run it again"
        )


def _commit(
    job: LoadJob,
    commit_id: int,
    pinned: PinnedLayout,
    old: Sequence[DataFile],
    new: Sequence[DataFile],
) -> None:
    entry = LedgerEntry(
        commit_id=commit_id,
        committed_ms=job.options.clock.now_ms(),
        source="",
        partitions=(),
        files=tuple(new),
        action=Action.COMPACT,
        replaces=tuple(dict.fromkeys(part.path for part in old)),
    )
    try:
        job.table.commit(entry, old, pinned)
    except CommitTakenError:
        job.table.remove_files([file.path for file in new])
        raise


def widen_file(
    store: TableStore, path: str, target: str, wanted: "pa.Schema", style: ParquetStyle
) -> bool:
    """Copies a file with wider types, in order; returns `False` if no column is narrower."""
    parts = read_footer(store, path)
    has = read_columns(store, parts[0])
    wider = widened_schema(has, wanted)
    if wider == has:
        return False
    with open_parquet(store, path) as opened:
        order = sorted_column(opened)
        with ParquetOutput(store, target, style, sorted_by=order) as output:
            for part in parts:
                for batch in part_batches(opened, part):
                    output.write(batch.cast(wider), part.partition)
    return True
