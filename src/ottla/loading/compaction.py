"""Rewrites small files of a table into large ones with the same rows.

Files are merged in order of partition and offset, across partitions, up to the target size, if they
have the same directory and schema. Tasks write the new files, other tasks compare all rows with the
old files, and one commit replaces the old files with the new ones. On request the rows are also
sorted by key or time (`sorting.py`). A crash before the commit leaves the table unchanged. Old
files stay on the disk for current readers until `ottla table vacuum`. (The compaction of a log is
`ottla.storage.compaction`.)
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.loading.engine import Engine
from ottla.loading.job import OnProgress, Progress, Step
from ottla.loading.merging import MergeJob
from ottla.loading.sorting import SortColumn, SortJob, unsorted_groups
from ottla.tables.data_files import read_columns
from ottla.tables.layout import TableLayout
from ottla.tables.ledger import Head
from ottla.tables.ledger_entries import (
    Action,
    DataFile,
    FileRole,
    LedgerEntry,
    inner_place,
    total_size,
)
from ottla.tables.parquet_files import TARGET_SIZE
from ottla.tables.table_directory import PinnedLayout, TableDirectory
from ottla.tables.transaction_log import CommitTakenError

SHORT_SIZE = 64 * 1024 * 1024
"""Bytes below which starting Java's second compiler does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """`target_size` is the maximum size of a merged file in bytes."""

    target_size: int = TARGET_SIZE
    compression: str = "zstd"
    sort_by: SortColumn | None = None
    """The sort column within each partition; `None`: by offset, within each merged file."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    """The files before and after; `commit_id` is `None` if there was nothing to merge.

    A file is listed once for each partition in it.
    """

    table: str
    commit_id: int | None
    before: tuple[DataFile, ...]
    after: tuple[DataFile, ...]
    seconds: float


def compact(
    path: str,
    engine: Engine,
    progress: OnProgress = pass_over,
    options: CompactOptions | None = None,
) -> CompactReport:
    """Merges small files.

    Raises `UserError` if there is no table or a load into it is running, and `TaskError` if the
    written rows differ from the rows read; the table is then unchanged.
    """
    options = options or CompactOptions()
    started = time.monotonic()
    table = TableDirectory(path)
    table.require()  # before `claim`, which would create the directory
    with table.claim():
        progress(Progress(step=Step.CLAIMED))
        head, files = table.head(), table.current_files()
        _check_order(head.layout, options.sort_by)
        places = {one.path: one for one in files}
        keys = {path: _key(table, one) for path, one in places.items()}
        groups = _groups(table, files, keys, options)
        old = tuple(part for group in groups for part in group)
        progress(Progress(step=Step.PLANNED, offset_count=sum(part.row_count for part in old)))
        new: tuple[DataFile, ...] = ()
        if groups:
            pinned = table.pinned(head.layout)
            new = _written(_job(table, head, groups, pinned, options), engine, progress)
            progress(Progress(step=Step.VERIFIED))
            table.store.sync([file.path for file in new])
            progress(Progress(step=Step.SYNCED))
            try:
                table.commit(_entry(head.commit_count, old, new, options), old, pinned)
            except CommitTakenError:
                table.remove_files([file.path for file in new])
                raise
            progress(Progress(step=Step.COMMITTED))
    return CompactReport(
        table=table.address,
        commit_id=head.commit_count if groups else None,
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
    table: TableDirectory,
    files: Sequence[DataFile],
    keys: Mapping[str, tuple[str, ...]],
    options: CompactOptions,
) -> list[list[DataFile]]:
    """The groups of files to rewrite."""
    if options.sort_by is None:
        return plan_compaction(files, keys, options.target_size)
    rows = [one for one in files if one.role is FileRole.ROWS]
    return unsorted_groups(table.store, rows, keys, options.sort_by)


def plan_compaction(
    parts: Iterable[DataFile], keys: Mapping[str, tuple[str, ...]], target_size: int
) -> list[list[DataFile]]:
    """Groups of files to merge; only files with equal `keys` (by path) go together.

    Files are taken in order of their first partition and offset, so that a large partition gets
    files of its own and small partitions share files.
    """
    by_path: dict[str, list[DataFile]] = {}
    for part in sorted(parts, key=lambda one: (one.partition, one.first_offset, one.last_offset)):
        by_path.setdefault(part.path, []).append(part)
    groups: list[list[DataFile]] = []
    counts: list[int] = []
    size, key = 0, None
    for path, whole in sorted(by_path.items(), key=lambda one: keys[one[0]]):
        if keys[path] != key or size + whole[0].size > target_size:
            groups.append([])
            counts.append(0)
            size, key = 0, keys[path]
        groups[-1] += whole
        counts[-1] += 1
        size += whole[0].size
    return [group for group, count in zip(groups, counts, strict=True) if count > 1]


def _key(table: TableDirectory, file: DataFile) -> tuple[str, ...]:
    """Role, place below the commit's directory, and columns; raises `CorruptionError`."""
    return file.role.value, inner_place(file), str(read_columns(table.store, file))


def _job(
    table: TableDirectory,
    head: Head,
    groups: Sequence[Sequence[DataFile]],
    pinned: PinnedLayout,
    options: CompactOptions,
) -> MergeJob | SortJob:
    style = pinned.style(options.compression)
    directory = table.load_directory(head.commit_count, secrets.token_bytes(4), Action.COMPACT)
    if options.sort_by is None:
        return MergeJob(
            store=table.store,
            directory=directory,
            groups=groups,
            style=style,
            has_keys=head.layout.is_latest,
        )
    return SortJob(
        store=table.store,
        directory=directory,
        groups=groups,
        style=style,
        target_size=options.target_size,
        column=options.sort_by,
        has_keys=head.layout.is_latest,
    )


def _written(job: MergeJob | SortJob, engine: Engine, progress: OnProgress) -> tuple[DataFile, ...]:
    size = total_size(part for group in job.groups for part in group)
    row_count = sum(file.row_count for group in job.groups for file in group)
    writing = Progress(step=Step.WRITING, offset_count=row_count)
    progress(writing)
    engine.start(is_short=size < SHORT_SIZE)
    files = job.run(
        engine, lambda done, count: progress(replace(writing, tasks_done=done, task_count=count))
    )
    progress(replace(writing, step=Step.WRITTEN))
    job.check(engine, files)
    return files


def _entry(
    commit_id: int,
    old: Sequence[DataFile],
    new: tuple[DataFile, ...],
    options: CompactOptions,
) -> LedgerEntry:
    return LedgerEntry(
        commit_id=commit_id,
        committed_ms=options.clock.now_ms(),
        source="",
        partitions=(),
        files=new,
        action=Action.COMPACT,
        replaces=tuple(dict.fromkeys(part.path for part in old)),
    )
