"""The end of a load: its files made durable, and published with one commit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.loading.carrying import carry_all
from ottla.loading.job import LoadJob, LoadPlan, Progress, Step, TableState
from ottla.loading.writing import WrittenFiles
from ottla.tables.layout import TableLayout, table_schema
from ottla.tables.ledger_entries import Action, DataFile, LedgerEntry, LoadedPartition
from ottla.tables.transaction_log import CommitTakenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that is published, and the table's state from then on."""

    entry: LedgerEntry
    state: TableState


def publish(
    job: LoadJob, plan: LoadPlan, written: WrittenFiles, partitions: Sequence[LoadedPartition]
) -> Commit:
    """Raises `CommitTakenError` when another writer was first; what was written is removed then."""
    carried = carry_all(job, plan, written.directory)
    files = (*written.files, *carried)
    if plan.action is Action.RERUN:
        counts = Counter({one.partition: 0 for one in partitions})
        for file in carried:
            counts[file.partition] += file.row_count
        partitions = [
            replace(one, carried_count=counts[one.partition])
            for one in partitions
            if not one.is_empty
        ]
    job.progress(Progress(step=Step.VERIFIED))
    job.table.store.sync([file.path for file in files])
    job.progress(Progress(step=Step.SYNCED))
    commit = _commit(job, plan, written.layout, partitions, files)
    job.progress(Progress(step=Step.COMMITTED))
    return commit


def note_hour(job: LoadJob, plan: LoadPlan, partitions: Sequence[LoadedPartition]) -> Commit:
    """Nothing new, and that is news: an hour is over, and the table complete for it."""
    return _commit(job, plan, plan.state.layout, partitions, ())


def _commit(
    job: LoadJob,
    plan: LoadPlan,
    layout: TableLayout,
    partitions: Sequence[LoadedPartition],
    files: Sequence[DataFile],
) -> Commit:
    entry = LedgerEntry(
        commit_id=plan.state.commit_id,
        committed_ms=job.options.clock.now_ms(),
        source=job.place.source,
        partitions=tuple(partitions),
        files=tuple(files),
        action=plan.action,
        replaces=tuple(dict.fromkeys(file.path for file in plan.replaced)),
        asked_ms=plan.asked_ms,
        schema=table_schema(layout.value_type) if layout.decodings else None,
    )
    try:
        job.table.commit(entry, plan.replaced)
    except CommitTakenError:
        job.table.remove_files([file.path for file in files])
        raise
    return Commit(entry=entry, state=plan.state.after(entry, layout))
