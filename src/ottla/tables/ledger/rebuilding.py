"""Rebuilds the ledger entry of a commit from the table's log, as far as possible.

If a writer is killed after its commit, the ledger lacks the entry, and the next writer copies it
from the log's history. If that history was cleaned up meanwhile, only next offsets and files are
known: sufficient to continue exactly there and to audit rows, but the roll-ups of batches are lost.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.tables.entries import Action, DataFile, LedgerEntry, LoadedPartition
from ottla.tables.formats.transaction_log import TransactionLog
from ottla.tables.ledger.ledger import TableState


def rebuilt_entry(
    commit_id: int, state: TableState, log: TransactionLog, files: Sequence[DataFile]
) -> LedgerEntry:
    """The entry of the load after `state`; `files` are those that no entry names."""
    return LedgerEntry(
        commit_id=commit_id,
        committed_ms=0,
        source="",
        partitions=tuple(_read_since(one, log, files) for one in state.loaded.values()),
        files=tuple(files),
        action=Action.LOAD,
        schema=None,
    )


def _read_since(
    before: LoadedPartition, log: TransactionLog, files: Sequence[DataFile]
) -> LoadedPartition:
    until_offset = log.next_offset(f"{before.topic}-{before.partition}")
    return replace(
        before,
        from_offset=before.until_offset,
        until_offset=before.until_offset if until_offset is None else until_offset,
        row_count=sum(one.row_count for one in files if one.partition == before.partition),
        quarantined_count=0,
        copied_count=0,
        log_end_offset=None,
        batches=None,
        lost=None,
    )
