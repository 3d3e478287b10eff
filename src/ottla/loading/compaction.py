"""Small files of a table made into large ones: the same rows, partition and offset beside each.

Files that follow each other are put together until they come to the target's size; none is mixed
with files of another partition, directory or schema. Tasks write the new files, others compare all
rows with the old ones, and one manifest entry takes the old files out and brings the new ones in.
Killed anywhere before that, the table is as it was. Old files stay on the disk for readers that are
at them, until `ottla table vacuum`. (A log's own compaction is `ottla.storage.compaction`.)
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.base.clock import Clock, SystemClock
from ottla.loading.job import OnProgress, Progress, Step, ignore
from ottla.loading.merging import MergeJob
from ottla.loading.tasks import TaskRunner
from ottla.tables.data_files import read_columns
from ottla.tables.manifest import Action, DataFile, ManifestEntry, inner_place
from ottla.tables.parquet_files import TARGET_SIZE
from ottla.tables.table_directory import CommitTakenError, TableDirectory

SHORT_SIZE = 64 * 1024 * 1024
"""Bytes that are put together before Java's second compiler would have paid for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """`target_size` is how large files may become, in bytes."""

    target_size: int = TARGET_SIZE
    compression: str = "zstd"
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    """What became of which files; `commit_id` is `None` when there were none to put together."""

    table: str
    commit_id: int | None
    before: tuple[DataFile, ...]
    after: tuple[DataFile, ...]
    seconds: float


def compact(
    path: str,
    tasks: TaskRunner,
    progress: OnProgress = ignore,
    options: CompactOptions | None = None,
) -> CompactReport:
    """Puts small files together.

    Raises `UserError` where there is no table, or a load into it is running, and `TaskError` when
    the rows that were written are not those that were read; the table is unchanged then.
    """
    options = options or CompactOptions()
    started = time.monotonic()
    table = TableDirectory(path)
    table.entries()  # Before anything is claimed: where there is no table, none is made.
    with table.claim():
        entries = table.entries()
        table.remove_leftovers(entries)
        progress(Progress(step=Step.CLAIMED))
        keys = {file.path: _key(table, file) for file in table.current_files()}
        groups = plan_compaction(table.current_files(), keys, options.target_size)
        old = tuple(file for group in groups for file in group)
        progress(Progress(step=Step.PLANNED, offset_count=sum(file.row_count for file in old)))
        new: tuple[DataFile, ...] = ()
        if groups:
            new = _merged(table, groups, tasks, progress, options)
            progress(Progress(step=Step.VERIFIED))
            table.store.sync([file.path for file in new])
            progress(Progress(step=Step.SYNCED))
            try:
                table.commit(_entry(entries, old, new, options))
            except CommitTakenError:
                table.remove_files([file.path for file in new])
                raise
            progress(Progress(step=Step.COMMITTED))
    return CompactReport(
        table=table.path,
        commit_id=len(entries) if groups else None,
        before=old,
        after=new,
        seconds=time.monotonic() - started,
    )


def plan_compaction(
    files: Iterable[DataFile], keys: Mapping[str, tuple[str, ...]], target_size: int
) -> list[list[DataFile]]:
    """Runs of files that become one each; `keys` (by path) says which may go together."""
    groups: list[list[DataFile]] = []
    order = sorted(files, key=lambda file: (keys[file.path], file.first_offset, file.last_offset))
    size = 0
    for file in order:
        is_alike = bool(groups) and keys[groups[-1][-1].path] == keys[file.path]
        if not is_alike or size + file.size > target_size:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [group for group in groups if len(group) > 1]


def _key(table: TableDirectory, file: DataFile) -> tuple[str, ...]:
    """Partition, place below the commit's directory, and columns; raises `CorruptionError`."""
    return f"{file.partition:010d}", inner_place(file), str(read_columns(table.store, file))


def _merged(
    table: TableDirectory,
    groups: Sequence[Sequence[DataFile]],
    tasks: TaskRunner,
    progress: OnProgress,
    options: CompactOptions,
) -> tuple[DataFile, ...]:
    size = sum(file.size for group in groups for file in group)
    job = MergeJob(
        store=table.store,
        directory=table.load_directory(
            len(table.entries()), secrets.token_bytes(4), Action.COMPACT
        ),
        groups=groups,
        compression=options.compression,
    )
    row_count = sum(file.row_count for group in groups for file in group)
    writing = Progress(step=Step.WRITING, offset_count=row_count)
    progress(writing)
    tasks.start(is_short=size < SHORT_SIZE)
    files = job.run(
        tasks, lambda done, count: progress(replace(writing, tasks_done=done, task_count=count))
    )
    progress(replace(writing, step=Step.WRITTEN))
    job.check(tasks, files)
    return files


def _entry(
    entries: Sequence[ManifestEntry],
    old: Sequence[DataFile],
    new: tuple[DataFile, ...],
    options: CompactOptions,
) -> ManifestEntry:
    schemas = [entry.schema for entry in entries if entry.schema is not None]
    return ManifestEntry(
        commit_id=len(entries),
        committed_ms=options.clock.now_ms(),
        source="",
        partitions=(),
        files=new,
        action=Action.COMPACT,
        replaces=tuple(file.path for file in old),
        schema=schemas[-1] if schemas else None,
    )
