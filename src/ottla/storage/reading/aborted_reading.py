"""Aborted transactions from a log's transaction indexes, for readers that change nothing.

If an index is missing or has lost entries, aborted records look committed. For an index that Ottla
wrote, the integrity file has a checksum; Apache Kafka writes none. Without a checksum, or on a
mismatch, the reader scans the batch headers of the log for abort markers. Format page:
docs/format/transaction-index.md.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, parent_directory
from ottla.record.batch import Batch
from ottla.storage.files.filenames import FileKind, FileSuffix
from ottla.storage.files.integrity import NOTHING_KNOWN, Integrity, changed_index
from ottla.storage.findings import repair_hint
from ottla.storage.index.abort_entries import missing_aborts, offsets_text
from ottla.storage.index.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
)
from ottla.storage.log.transaction_tail import TransactionTail
from ottla.storage.segment.partition_files import SegmentFiles

logger = logging.getLogger(__name__)


class ChangedIndexError(CorruptionError):
    """A transaction index that does not match its checksum in the integrity file."""


def indexed_transactions(
    file_system: FileSystem,
    segments: Iterable[SegmentFiles],
    integrity: Integrity | None,
    offsets: tuple[int, int],
) -> list[AbortedTransaction]:
    """The indexed aborted transactions that overlap with [offsets[0], offsets[1]).

    `segments` start with the one that holds offsets[0]. Raises `ChangedIndexError`.
    """
    known = integrity.segments if integrity else {}
    found: list[AbortedTransaction] = []
    for segment in segments:
        path = _index_path(file_system, segment)
        facts = known.get(segment.base_offset, NOTHING_KNOWN)
        changed = changed_index(file_system, path, facts)
        if changed is not None:
            raise ChangedIndexError(path, 0, changed.reason)
        index = TransactionIndex(file_system, path, base_offset=segment.base_offset, writable=False)
        with closing(index):
            some, is_complete = index.collect(*offsets)
        found += some
        if is_complete:
            break
    return found


def aborts_without_entry(
    batches: Iterable[Batch],
    indexed: Iterable[AbortedTransaction],
    offsets: tuple[int, int],
) -> list[AbortedTransaction]:
    """Transactions that have an abort marker and records in a range, but no index entry.

    `batches` are the batches from the start of the range, control batches with their payload. They
    are read past the end of the range until every transaction that is open there has ended. Raises
    `CorruptionError` for an unreadable batch in the range, or while a transaction is open.
    """
    tail = TransactionTail(offsets[0])
    try:
        for batch in batches:
            if batch.base_offset >= offsets[1] and tail.first_open_offset is None:
                break
            if batch.is_control or batch.base_offset < offsets[1]:
                tail.take_held(batch)
            else:
                tail.next_offset = batch.last_offset + 1
    except CorruptionError:
        if tail.next_offset < offsets[1] or tail.first_open_offset is not None:
            raise
    return missing_aborts(indexed, tail.aborted)


def report_missing_aborts(
    missing: Sequence[AbortedTransaction], segments: Sequence[SegmentFiles], *, is_tolerated: bool
) -> None:
    """Raises `CorruptionError` for aborts without an index entry, or logs them if tolerated."""
    if not missing:
        return
    last_offset = missing[0].last_offset
    segment = next(one for one in reversed(segments) if one.base_offset <= last_offset)
    path = _index_path_of(segment)
    directory = parent_directory(parent_directory(path))
    reason = f"aborted transactions are missing (offsets {offsets_text(missing)})"
    if not is_tolerated:
        raise CorruptionError(path, 0, f"{reason}; {repair_hint(directory)}")
    logger.warning("%s: %s; using their markers in the log", path, reason)


def _index_path_of(segment: SegmentFiles) -> str:
    return segment.path_of(FileKind.TRANSACTION_INDEX)


def _index_path(file_system: FileSystem, segment: SegmentFiles) -> str:
    # A replaced segment's log file is renamed first and its transaction index last.
    path = _index_path_of(segment)
    swapped = path + FileSuffix.SWAP.value
    if file_system.status(path) is None and file_system.status(swapped):
        return swapped
    return path
