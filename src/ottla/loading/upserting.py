"""Merges the changes of a load into a table with the latest row of each key.

`split_writer.py` has written every record of the range as a change, verified like any load. Here
tasks rewrite the files that have rows of changed keys, without superseded rows
(`latest_writer.py`): for each key of a partition the highest offset wins, and a delete leaves no
row. One commit replaces the old files with the new ones. A merge reads the changes and the files
that may have their keys, never the rest of the table. Equal keys in different partitions are
different rows, as in Kafka's compaction.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from os import cpu_count

from ottla.base.errors import TaskError
from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.loading.job import LoadJob, LoadPlan
from ottla.loading.latest_writer import BundleReport, LatestWriter
from ottla.loading.resolution import KEYS_AT_ONCE, LatestChanges, Resolution, Resolving
from ottla.loading.writing import LEAST_ROWS, WrittenFiles, written_files
from ottla.tables.ledger_entries import (
    Action,
    DataFile,
    FileRole,
    MergeCounts,
    changes_of,
    total_size,
)
from ottla.tables.store import TableStore
from ottla.tables.transaction_log import whole_files

LEAST_SIZE = 8 * 1024 * 1024
"""Bytes below which a separate task costs more than it saves."""

_File = Sequence[DataFile]
"""A file, as the list of its parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFiles:
    """The files that the commit adds and replaces, and the counts of the merge."""

    files: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...]
    counts: MergeCounts


def merge_changes(job: LoadJob, plan: LoadPlan, written: WrittenFiles) -> MergedFiles:
    """Merges the changes; raises `TaskError` if the written rows differ from those read."""
    aside = [file for file in written.files if file.role is not FileRole.ROWS]
    changes = _rows(written.files)
    resolutions = _resolved(job, written, _by_partition(changes))
    merge = LatestWriter(
        table=job.table.path,
        directory=written.directory,
        style=written.style(job.options.compression),
        partitioning=written.layout.partitioning,
        resolutions=resolutions,
        again=_read_again(plan),
    )
    rows = job.table.current_files() if plan.state.commit_id else []
    old = _may_change(job.table.store, whole_files(_rows(rows)), merge)
    bundles = _bundles(job, old, whole_files(changes))
    texts = job.engine.run([partial(merge.write, one) for one in bundles], lambda *_: None)
    reports = [BundleReport(**json.loads(text)) for text in texts]
    paths = [path for one in reports for path in one.written]
    files = written_files(job.table.store, paths, with_keys=True)
    gone = {path for one in reports for path in one.replaced}
    replaced = tuple(part for parts in old for part in parts if part.path in gone)
    _check(written, (*changes, *replaced), files, reports)
    return MergedFiles(
        files=(*files, *aside),
        replaced=replaced,
        counts=MergeCounts(
            upserted=sum(one.upserted_count for one in reports),
            superseded=sum(one.superseded_count for one in reports),
        ),
    )


def remove_changes(job: LoadJob, written: WrittenFiles) -> None:
    """Removes the files of changes, which no commit names."""
    if written.directory:
        left = job.table.store.find(changes_of(written.directory))
        job.table.remove_files([file.path for file in left])


def _may_change(store: TableStore, files: Sequence[_File], merge: LatestWriter) -> list[_File]:
    """The files that may have superseded rows, according to their bounds."""
    changes = LatestChanges(store, merge.resolutions)

    def may_change(part: DataFile) -> bool:
        again = merge.again.get(part.partition)
        is_again = again is not None and part.last_offset >= again.from_offset
        return is_again or changes.may_change(part)

    return [parts for parts in files if any(may_change(part) for part in parts)]


def _resolved(
    job: LoadJob, written: WrittenFiles, changes: Mapping[int, Sequence[DataFile]]
) -> dict[int, Resolution]:
    """Resolves the changes; large partitions have a task each."""
    resolving = Resolving(
        table=job.table.path, directory=written.directory, keys_at_once=KEYS_AT_ONCE
    )
    shares: list[dict[int, Sequence[DataFile]]] = []
    row_count = 0
    for number, parts in changes.items():
        count = sum(part.row_count for part in parts)
        if not shares or row_count + count > LEAST_ROWS:
            shares.append({})
            row_count = 0
        shares[-1][number] = parts
        row_count += count
    work = [partial(resolving.resolve, share) for share in shares]
    texts = job.engine.run(work, lambda *_: None)
    found = [Resolution(**json.loads(text)) for text in texts]
    return {one.partition: one for one in found}


def _read_again(plan: LoadPlan) -> Mapping[int, OffsetRange]:
    if plan.action is not Action.RERUN:
        return {}
    return {one.partition: one.offsets for one in plan.ranges if not one.is_empty}


def _rows(files: Iterable[DataFile]) -> list[DataFile]:
    return [file for file in files if file.role is FileRole.ROWS]


def _by_partition(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return found


def _bundles(job: LoadJob, old: Sequence[_File], changes: Sequence[_File]) -> list[list[_File]]:
    """The files that each task merges: small files together, which become one, large ones alone."""
    files = sorted([*old, *changes], key=lambda parts: parts[0].partition)
    whole = total_size(part for parts in files for part in parts)
    target = job.options.target_size
    fair = whole // (job.options.min_partitions or cpu_count() or 1) + 1
    limit = min(target, fair if job.options.min_partitions else max(fair, LEAST_SIZE))
    bundles: list[list[_File]] = []
    room = 0
    for parts in files:
        size = parts[0].size
        if size >= target // 2:
            bundles.insert(0, [parts])
            continue
        if not room or size > room:
            bundles.append([])
            room = limit
        bundles[-1].append(parts)
        room = max(0, room - size)
    return bundles


def _check(
    written: WrittenFiles,
    read: Sequence[DataFile],
    files: Sequence[DataFile],
    reports: Sequence[BundleReport],
) -> None:
    """Raises `TaskError` unless each row read was either written or superseded."""
    counts = [sum(one.row_count for one in some) for some in (files, reports)]
    reads = [sum(one.row_count for one in read), sum(one.read_count for one in reports)]
    if counts[0] != counts[1] or reads[0] != reads[1]:
        raise TaskError(
            f"{written.directory}: {counts[0]} rows were written of {counts[1]}, and {reads[1]} "
            f"read of {reads[0]}; the table is unchanged, run it again"
        )
