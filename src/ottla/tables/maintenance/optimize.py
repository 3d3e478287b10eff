"""Rewrites small files of a table into large ones with the same rows.

Files are merged in order of partition and offset, across partitions, up to the target size, if they
have the same directory and schema. Tasks write the new files, other tasks compare all rows with the
old files, and one commit replaces the old files with the new ones. On request the rows are also
sorted by key or time (`sorting.py`). A crash before the commit leaves the table unchanged. Old
files stay on the disk for current readers until `ottla table vacuum`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.tables.entries import (
    Action,
    DataFile,
    inner_directory,
    rows_only,
    total_size,
    whole_files,
)
from ottla.tables.files.parquet_files import TARGET_SIZE
from ottla.tables.layout import TableLayout, is_placed
from ottla.tables.maintenance.merging import MergeJob
from ottla.tables.maintenance.sorting import SortColumn, SortJob, unsorted_groups
from ottla.tables.table import Table
from ottla.tables.writing.engine import Engine, shared_out
from ottla.tables.writing.progress import OnProgress, Progress, Step
from ottla.tables.writing.transaction import Transaction, WriteOptions

SHORT_SIZE = 64 * 1024 * 1024
"""Bytes below which starting Java's second compiler does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeOptions:
    """`target_size` is the maximum size of a merged file in bytes."""

    target_size: int = TARGET_SIZE
    compression: str = "zstd"
    sort_by: SortColumn | None = None
    """The sort column within each partition; `None`: by offset, within each merged file."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """The files before and after; `commit_id` is `None` if there was nothing to merge.

    A file is listed once for each partition in it.
    """

    table: str
    commit_id: int | None
    before: tuple[DataFile, ...]
    after: tuple[DataFile, ...]
    seconds: float


def optimize(
    path: str,
    engine: Engine,
    progress: OnProgress = pass_over,
    options: OptimizeOptions | None = None,
) -> OptimizeReport:
    """Merges small files.

    Raises `UserError` if there is no table or a load into it is running, and `TaskError` if the
    written rows differ from the rows read; the table is then unchanged.
    """
    options = options or OptimizeOptions()
    started = time.monotonic()
    table = Table(path)
    table.require()  # before `claim`, which would create the directory
    with table.claim():
        progress(Progress(step=Step.CLAIMED))
        table.make_whole()
        state = table.state()
        # A file of an earlier partitioning stays as it is.
        by = state.layout.partitioning
        files = [one for one in table.current_files() if is_placed(one, by)]
        _check_order(state.layout, options.sort_by)
        keys = {file.path: _key(table, file) for file, *_ in whole_files(files)}
        groups = _groups(table, files, keys, options)
        old = tuple(part for group in groups for part in group)
        progress(Progress(step=Step.PLANNED, offset_count=sum(part.row_count for part in old)))
        new: tuple[DataFile, ...] = ()
        if groups:
            writing = WriteOptions(
                engine=engine,
                progress=progress,
                target_size=options.target_size,
                compression=options.compression,
                clock=options.clock,
            )
            transaction = Transaction.after(state, table, writing, Action.OPTIMIZE, state.layout)
            new = _written(transaction, groups, options.sort_by)
            transaction.publish(new, old)
    return OptimizeReport(
        table=table.address,
        commit_id=state.commit_count if groups else None,
        before=old,
        after=new,
        seconds=time.monotonic() - started,
    )


def _check_order(layout: TableLayout, column: SortColumn | None) -> None:
    """Raises `UserError` if the column has no order."""
    if column is SortColumn.KEY and layout.has_struct_keys:
        raise UserError(
            "the table's keys are structs, which have no order: sort by timestamp, or leave out "
            "--sort-by"
        )


def _groups(
    table: Table,
    files: Sequence[DataFile],
    keys: Mapping[str, tuple[str, ...]],
    options: OptimizeOptions,
) -> list[list[DataFile]]:
    """The groups of files to rewrite."""
    if options.sort_by is None:
        return mergeable_groups(files, keys, options.target_size)
    return unsorted_groups(table.store, rows_only(files), keys, options.sort_by)


def mergeable_groups(
    parts: Iterable[DataFile], keys: Mapping[str, tuple[str, ...]], target_size: int
) -> list[list[DataFile]]:
    """Groups of files to merge; only files with equal `keys` (by path) go together. A file in which
    rows were deleted is written anew also alone.

    Files are taken in order of their first partition and offset, so that a large partition gets
    files of its own and small partitions share files.
    """
    in_order = sorted(parts, key=lambda one: (one.partition, one.first_offset, one.last_offset))
    by_key: dict[tuple[str, ...], list[list[DataFile]]] = {}
    for file in whole_files(in_order):
        by_key.setdefault(keys[file[0].path], []).append(file)
    groups = [
        group
        for _, files in sorted(by_key.items(), key=lambda pair: pair[0])
        for group in shared_out(files, lambda file: file[0].size, target_size)
    ]
    return [
        [part for file in group for part in file]
        for group in groups
        if len(group) > 1 or any(part.kept is not None for part in group[0])
    ]


def _key(table: Table, file: DataFile) -> tuple[str, ...]:
    """Role, place below the commit's directory, and columns; raises `CorruptionError`."""
    return file.role.value, inner_directory(file), str(table.files.columns(file))


def _written(
    transaction: Transaction, groups: Sequence[Sequence[DataFile]], column: SortColumn | None
) -> tuple[DataFile, ...]:
    options = transaction.options
    job: MergeJob | SortJob = MergeJob(transaction=transaction, groups=groups)
    if column is not None:
        job = SortJob(transaction=transaction, groups=groups, column=column)
    old = [part for group in groups for part in group]
    writing = Progress(step=Step.WRITING, offset_count=sum(part.row_count for part in old))
    options.progress(writing)
    options.engine.start(is_short=total_size(old) < SHORT_SIZE)
    files = job.run(
        lambda done, count: options.progress(replace(writing, tasks_done=done, task_count=count))
    )
    options.progress(replace(writing, step=Step.WRITTEN))
    job.check(files)
    return files
