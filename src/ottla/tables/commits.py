"""A load's commit: begin, write, commit.

`begin` gives a transaction that continues a state of the table. Tasks write its files with
`record_writer`, in any process; `Transaction.written` reads what they wrote, and `commit` makes
their rows part of the table, with the ranges of the log that they are of. A crash before that
leaves the table unchanged; after it the ranges are loaded, and no load reads them again.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.entries import (
    Action,
    DataFile,
    FileRole,
    LedgerEntry,
    LoadedPartition,
    MergeCounts,
    of_role,
)
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.read_again import ReadAgain
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.layout import TableLayout
from ottla.tables.ledger.ledger import TableState
from ottla.tables.table import Table
from ottla.tables.upserts.upserting import merge_changes, remove_changes
from ottla.tables.writing.change_rows import ChangeMaker, Deletes
from ottla.tables.writing.copied_rows import copy_others, touched_files
from ottla.tables.writing.record_writer import OnError, RecordWriter
from ottla.tables.writing.transaction import ReadRanges, Transaction, WriteOptions
from ottla.tables.writing.widening import widen_files


def begin(
    table: Table,
    state: TableState,
    options: WriteOptions,
    *,
    action: Action = Action.LOAD,
    layout: TableLayout | None = None,
) -> Transaction:
    """The commit after `state`; `layout` is that of its rows, `None` for a commit without rows.

    Raises `CommitTakenError` after a commit that widened the table's files for this layout, and
    `UserError` for a layout that the table cannot have, or rules of others that its rows may break.
    """
    if layout is not None:
        table.log.check_rules()
    if action is Action.RERUN or state.layout.is_latest:
        table.make_whole()
    if layout is not None and widen_files(table, state, layout, options):
        raise CommitTakenError(f"{table.address}: its column types were widened; run it again")
    return Transaction.after(state, table, options, action, layout)


def record_writer(
    transaction: Transaction,
    topic: str,
    partition_count: int,
    *,
    on_error: OnError = OnError.FAIL,
    login: RegistryLogin | None = None,
    deletes: Deletes | None = None,
) -> RecordWriter:
    """What tasks write the records of a topic with; `deletes` is the layout's condition."""
    layout = transaction.layout
    # A load reads no offset again.
    is_again = transaction.action is Action.RERUN
    there = transaction.table.current_files() if is_again else []
    order = layout.order
    return RecordWriter(
        table=transaction.table.path,
        directory=transaction.directory,
        commit_id=transaction.commit_id,
        topic=topic,
        partition_count=partition_count,
        decoding=layout.record_decoding,
        login=login,
        on_error=on_error,
        style=transaction.style,
        partitioning=layout.partitioning,
        changes=None if order is None else ChangeMaker(order=order, deletes=deletes),
        forgotten=tuple(of_role(there, FileRole.FORGOTTEN)),
    )


def commit(transaction: Transaction, files: Sequence[DataFile], read: ReadRanges) -> LedgerEntry:
    """Commits files that tasks have written, and the ranges that they are of.

    A rerun replaces the table's rows of its ranges; in a table of the latest rows, changes are
    merged with the table's rows. Raises `CommitTakenError` if another writer was first.
    """
    again = ReadAgain()
    if transaction.action is Action.RERUN:
        # A rerun does not state the partitions that it did not read.
        read = replace(read, partitions=tuple(one for one in read.partitions if not one.is_empty))
        again = ReadAgain(
            ranges={one.partition: one.offsets for one in read.partitions},
            written=tuple(files) if read.keeps_unread else None,
        )
    if not transaction.layout.is_latest:
        return _commit_rows(transaction, files, read, again)
    if not files and not again.ranges:
        return transaction.publish((), read=read, merged=MergeCounts(upserted=0, superseded=0))
    try:
        merged = merge_changes(transaction, files, again)
        aside = _quarantined(transaction, again)
        copies = copy_others(transaction, aside, again)
        return replace(transaction, change_data=merged.change_data).publish(
            (*merged.files, *copies),
            (*merged.replaced, *aside),
            _stated(transaction, read, copies),
            merged.counts,
        )
    finally:
        # No log names them: whether the commit was made or not, they are no rows of the table.
        remove_changes(transaction)


def _stated(transaction: Transaction, read: ReadRanges, copies: Sequence[DataFile]) -> ReadRanges:
    """With the counts of what was copied at other offsets, and at those that were read."""
    files = transaction.table.files
    return replace(read, partitions=tuple(_counted(files, one, copies) for one in read.partitions))


def _counted(
    files: DataFiles, read: LoadedPartition, copies: Sequence[DataFile]
) -> LoadedPartition:
    own = [one for one in copies if one.partition == read.partition]
    row_count, quarantined_count = (
        files.counts_in(of_role(own, role), [read.offsets])[0][0]
        for role in (FileRole.ROWS, FileRole.QUARANTINE)
    )
    return replace(
        read,
        row_count=read.row_count + row_count,
        quarantined_count=read.quarantined_count + quarantined_count,
        copied_count=sum(one.row_count for one in own) - row_count - quarantined_count,
    )


def _quarantined(transaction: Transaction, again: ReadAgain) -> tuple[DataFile, ...]:
    """The quarantined files that a rerun replaces."""
    files = transaction.table.current_files() if again.ranges else []
    return touched_files([one for one in files if one.role is FileRole.QUARANTINE], again.ranges)


def _commit_rows(
    transaction: Transaction,
    files: Sequence[DataFile],
    read: ReadRanges,
    again: ReadAgain,
) -> LedgerEntry:
    there = transaction.table.current_files() if again.ranges else []
    # What was forgotten stays so.
    others = [one for one in there if one.role is not FileRole.FORGOTTEN]
    replaced = touched_files(others, again.ranges)
    copies = copy_others(transaction, replaced, again)
    return transaction.publish((*files, *copies), replaced, _stated(transaction, read, copies))
