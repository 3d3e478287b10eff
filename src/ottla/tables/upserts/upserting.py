"""Merges the changes of a load into a table with the latest row of each key.

`split_writer.py` has written every record of the range as a change, verified like any load. Here
tasks rewrite the files that have rows of changed keys, without superseded rows
(`latest_writer.py`): for each key of a partition the highest offset wins, and a delete leaves no
row. One commit replaces the old files with the new ones. A merge reads the changes and the files
that may have their keys, never the rest of the table. Equal keys in different partitions are
different rows, as in Kafka's compaction.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import cpu_count

from ottla.base.errors import TaskError
from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder
from ottla.tables.entries import (
    DataFile,
    FileRole,
    MergeCounts,
    changes_of,
    rows_only,
    total_size,
    whole_files,
)
from ottla.tables.files.read_again import ReadAgain
from ottla.tables.stores.store import TableStore
from ottla.tables.upserts.change_feed import ChangeFeed
from ottla.tables.upserts.history import Succession
from ottla.tables.upserts.latest_writer import BundleReport, LatestWriter
from ottla.tables.upserts.resolution import (
    KEYS_AT_ONCE,
    LatestChanges,
    Meeting,
    Resolution,
    Resolving,
)
from ottla.tables.writing.engine import no_tasks_shown, shared_out
from ottla.tables.writing.transaction import Transaction

LEAST_ROWS = 20_000
"""Rows below which a separate task costs more than it saves."""

LEAST_SIZE = 8 * 1024 * 1024
"""Bytes below which a separate task costs more than it saves."""

MEETING_ROWS = 1_000_000
"""Rows of the table that a task looks through for those that beat changes."""

_File = Sequence[DataFile]
"""A file, as the list of its parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFiles:
    """The files that the commit adds and replaces, and the counts of the merge."""

    files: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...]
    counts: MergeCounts
    change_data: tuple[DataFile, ...] = ()
    """The files of the change feed, if the table has one."""


def merge_changes(
    transaction: Transaction, written: Sequence[DataFile], again: ReadAgain
) -> MergedFiles:
    """Merges the changes that were written; `again` is what a rerun replaces.

    Raises `TaskError` if the written rows differ from those read.
    """
    table, engine = transaction.table, transaction.options.engine
    order = transaction.layout.order
    assert order is not None
    changes = rows_only(written)
    resolutions = _resolved(transaction, order, changes)
    merge = LatestWriter(
        table=table.path,
        directory=transaction.directory,
        order=order,
        style=transaction.style,
        partitioning=transaction.layout.partitioning,
        resolutions=resolutions,
        again=again,
    )
    there = table.current_files() if transaction.commit_id else []
    there = [one for one in there if one.role in (FileRole.ROWS, FileRole.DELETED)]
    old = _may_change(table.store, whole_files(there), merge)
    if order.history is not None:
        merge = replace(merge, ends=_ends(transaction, old, merge))
    elif not order.is_by_offset or transaction.layout.has_change_feed:
        merge = _met(transaction, old, merge)
    if old and transaction.layout.has_change_feed:
        merge = replace(merge, feed=_feed(transaction, order))
    bundles = _bundles(transaction, old, whole_files(changes))
    texts = engine.run([partial(merge.write, bundle) for bundle in bundles], no_tasks_shown)
    reports = [BundleReport(**json.loads(text)) for text in texts]
    files = transaction.written(path for report in reports for path in report.written)
    gone = {path for report in reports for path in report.replaced}
    replaced = tuple(part for parts in old for part in parts if part.path in gone)
    fed = [path for report in reports for path in report.change_data]
    if not replaced:
        # All that changes are rows that are added, as the files of rows say.
        table.remove_files(fed)
        fed = []
    _check(transaction.directory, (*changes, *replaced), files, reports)
    return MergedFiles(
        files=(*files, *(file for file in written if file.role is FileRole.QUARANTINE)),
        replaced=replaced,
        counts=MergeCounts(
            upserted=sum(report.upserted_count for report in reports),
            superseded=sum(report.superseded_count for report in reports),
        ),
        change_data=tuple(part for path in fed for part in table.files.described(path)),
    )


def remove_changes(transaction: Transaction) -> None:
    """Removes the files of changes, which no commit names."""
    table = transaction.table
    left = table.store.find(changes_of(transaction.directory))
    table.remove_files([file.path for file in left])


def _may_change(store: TableStore, files: Sequence[_File], merge: LatestWriter) -> list[_File]:
    """The files that may have superseded rows, according to their bounds."""
    changes = LatestChanges(store, merge.order, merge.resolutions)

    def may_change(part: DataFile) -> bool:
        again = merge.again.range_of(part.partition)
        is_again = not again.is_empty and part.last_offset >= again.from_offset
        return is_again or changes.may_change(part)

    return [parts for parts in files if any(may_change(part) for part in parts)]


def _resolved(
    transaction: Transaction, order: RowOrder, changes: Sequence[DataFile]
) -> dict[int, Resolution]:
    """Resolves the changes, by scope; large scopes have a task each."""
    resolving = Resolving(
        table=transaction.table.path,
        directory=transaction.directory,
        order=order,
        keys_at_once=KEYS_AT_ONCE,
    )
    scopes: dict[int, list[DataFile]] = {}
    for part in changes:
        scopes.setdefault(order.scope(part.partition), []).append(part)
    shares = shared_out(
        scopes, lambda scope: sum(part.row_count for part in scopes[scope]), LEAST_ROWS
    )
    work = [partial(resolving.resolve, {scope: scopes[scope] for scope in some}) for some in shares]
    texts = transaction.options.engine.run(work, no_tasks_shown)
    found = [Resolution(**json.loads(text)) for text in texts]
    return {resolution.scope: resolution for resolution in found}


def _met(transaction: Transaction, old: Sequence[_File], merge: LatestWriter) -> LatestWriter:
    """The merge with the files of changes that rows of the table beat, and of those that have rows,
    by tasks of many rows.
    """
    meeting = Meeting(
        table=merge.table,
        directory=merge.directory,
        order=merge.order,
        resolutions=merge.resolutions,
        again=merge.again,
        has_feed=transaction.layout.has_change_feed,
    )
    parts = [part for parts in old for part in parts]
    shares = shared_out(parts, lambda part: part.row_count, MEETING_ROWS)
    work = [partial(meeting.find, share) for share in shares]
    found = transaction.options.engine.run(work, no_tasks_shown)
    beaten, met = ([path for path in found[start::2] if path] for start in (0, 1))
    return replace(merge, beaten=beaten, met=met)


def _feed(transaction: Transaction, order: RowOrder) -> ChangeFeed:
    return ChangeFeed(
        directory=transaction.directory,
        style=transaction.style,
        partitioning=transaction.layout.partitioning,
        order=order,
    )


def _ends(transaction: Transaction, old: Sequence[_File], merge: LatestWriter) -> dict[str, str]:
    """The files with the ends of rows, by partition; each scope has a task."""
    succession = Succession(
        table=merge.table,
        directory=merge.directory,
        order=merge.order,
        keys_at_once=KEYS_AT_ONCE,
        again=merge.again,
    )
    parts = [part for parts in old for part in parts]
    work = [
        partial(
            succession.find,
            resolution,
            [one for one in parts if merge.order.scope(one.partition) == scope],
        )
        for scope, resolution in merge.resolutions.items()
    ]
    texts = transaction.options.engine.run(work, no_tasks_shown)
    return {number: path for text in texts for number, path in json.loads(text).items()}


def _bundles(
    transaction: Transaction, old: Sequence[_File], changes: Sequence[_File]
) -> list[list[_File]]:
    """The files that each task merges: small files together, which become one, large ones alone."""
    options = transaction.options
    files = sorted([*old, *changes], key=lambda parts: parts[0].partition)
    whole = total_size(part for parts in files for part in parts)
    fair = whole // (options.min_tasks or cpu_count() or 1) + 1
    limit = min(options.target_size, fair if options.min_tasks else max(fair, LEAST_SIZE))

    def is_large(parts: _File) -> bool:
        return parts[0].size >= options.target_size // 2

    large = [[parts] for parts in files if is_large(parts)]
    small = [parts for parts in files if not is_large(parts)]
    return [*large, *shared_out(small, lambda parts: parts[0].size, limit)]


def _check(
    directory: str,
    read: Sequence[DataFile],
    files: Sequence[DataFile],
    reports: Sequence[BundleReport],
) -> None:
    """Raises `TaskError` unless each row read was either written or superseded."""
    counts = [sum(one.row_count for one in some) for some in (files, reports)]
    reads = [sum(one.row_count for one in read), sum(one.read_count for one in reports)]
    if counts[0] != counts[1] or reads[0] != reads[1]:
        raise TaskError(
            f"{directory}: {counts[0]} rows were written of {counts[1]}, and {reads[1]} "
            f"read of {reads[0]}; the table is unchanged, run it again"
        )
