"""The end of a load: syncs its files and publishes them in one commit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ottla.base.values import dataclass
from ottla.loading.copied_rows import carry_all
from ottla.loading.job import LoadJob, LoadPlan, Progress, Step, TableState
from ottla.loading.upserting import merge_changes, remove_changes
from ottla.loading.writing import WrittenFiles
from ottla.tables.layout import TableLayout
from ottla.tables.ledger_entries import (
    Action,
    DataFile,
    LedgerEntry,
    LoadedPartition,
    MergeCounts,
)
from ottla.tables.table_directory import PinnedLayout
from ottla.tables.transaction_log import CommitTakenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A published commit, and the state of the table after it."""

    entry: LedgerEntry
    state: TableState


def publish(
    job: LoadJob, plan: LoadPlan, written: WrittenFiles, partitions: Sequence[LoadedPartition]
) -> Commit:
    """Commits the files; if another writer was first, removes them.

    Raises `CommitTakenError` then.
    """
    if written.layout.is_latest:
        try:
            commit = _publish(job, plan, _merged(job, plan, written, partitions))
        finally:
            remove_changes(job, written)
    else:
        commit = _publish(job, plan, _carried(job, plan, written, partitions))
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """The files and ranges that a commit adds, and the files that it replaces."""

    layout: TableLayout
    partitions: Sequence[LoadedPartition]
    files: Sequence[DataFile]
    replaced: Sequence[DataFile]
    merged: MergeCounts | None = None
    pinned: PinnedLayout | None = None


def _publish(job: LoadJob, plan: LoadPlan, ready: _Ready) -> Commit:
    job.progress(Progress(step=Step.VERIFIED))
    job.table.store.sync([file.path for file in ready.files])
    job.progress(Progress(step=Step.SYNCED))
    commit = _commit(job, plan, ready)
    job.progress(Progress(step=Step.COMMITTED))
    return commit


def _merged(
    job: LoadJob, plan: LoadPlan, written: WrittenFiles, partitions: Sequence[LoadedPartition]
) -> _Ready:
    merged = merge_changes(job, plan, written)
    return _Ready(
        layout=written.layout,
        pinned=written.pinned,
        partitions=_read(plan, partitions),
        files=merged.files,
        replaced=merged.replaced,
        merged=merged.counts,
    )


def _carried(
    job: LoadJob, plan: LoadPlan, written: WrittenFiles, partitions: Sequence[LoadedPartition]
) -> _Ready:
    carried = carry_all(job, plan, written)
    counts = Counter(dict.fromkeys((one.partition for one in partitions), 0))
    for file in carried:
        counts[file.partition] += file.row_count
    read = [replace(one, carried_count=counts[one.partition]) for one in partitions]
    return _Ready(
        layout=written.layout,
        pinned=written.pinned,
        partitions=_read(plan, read),
        files=(*written.files, *carried),
        replaced=plan.replaced,
    )


def _read(plan: LoadPlan, partitions: Sequence[LoadedPartition]) -> Sequence[LoadedPartition]:
    """The partitions to state in the commit; a rerun omits those that it did not read."""
    is_rerun = plan.action is Action.RERUN
    return [one for one in partitions if not (is_rerun and one.is_empty)]


def note_hour(job: LoadJob, plan: LoadPlan, partitions: Sequence[LoadedPartition]) -> Commit:
    """Commits an entry without rows: the table is complete for the hour that has ended."""
    layout = plan.state.layout
    merged = MergeCounts(upserted=0, superseded=0) if layout.is_latest else None
    ready = _Ready(layout=layout, partitions=partitions, files=(), replaced=(), merged=merged)
    return _commit(job, plan, ready)


def _commit(job: LoadJob, plan: LoadPlan, ready: _Ready) -> Commit:
    layout = ready.layout
    entry = LedgerEntry(
        commit_id=plan.state.commit_id,
        committed_ms=job.options.clock.now_ms(),
        source=job.place.source,
        partitions=tuple(ready.partitions),
        files=tuple(ready.files),
        action=plan.action,
        replaces=tuple(dict.fromkeys(file.path for file in ready.replaced)),
        asked_ms=plan.asked_ms,
        schema=layout.row_schema if layout.decodings else None,
        merged=ready.merged,
    )
    try:
        job.table.commit(entry, ready.replaced, ready.pinned)
    except CommitTakenError:
        job.table.remove_files([file.path for file in ready.files])
        raise
    return Commit(entry=entry, state=plan.state.after(entry, layout))
