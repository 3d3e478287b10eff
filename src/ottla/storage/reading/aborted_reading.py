"""Aborted transactions from a log's transaction indexes, for readers that change nothing.

An index that was lost, or has lost entries, would let aborted records pass for committed ones. Of
what a broker of ours wrote the integrity file has a checksum; of what Apache Kafka wrote there is
none. There, and where the checksum is wrong, the abort markers in the log are looked for, header by
header. Format page: docs/format/transaction-index.md.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, parent_directory
from ottla.record.batch import Batch
from ottla.storage.files.filenames import FileKind, FileSuffix
from ottla.storage.files.integrity import NOTHING_KNOWN, Integrity, begins_as
from ottla.storage.files.partition_files import SegmentFiles
from ottla.storage.index.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
)
from ottla.storage.log.abort_check import missing_aborts, offsets_text
from ottla.storage.log.transaction_tail import TransactionTail
from ottla.storage.reading.read_damage import repair_hint

logger = logging.getLogger(__name__)


class ChangedIndexError(CorruptionError):
    """A transaction index that is not as the integrity file says."""


def indexed_transactions(
    file_system: FileSystem,
    segments: Iterable[SegmentFiles],
    integrity: Integrity | None,
    offsets: tuple[int, int],
) -> list[AbortedTransaction]:
    """Those that overlap with [offsets[0], offsets[1]), of segments from the first offset on.

    Raises `ChangedIndexError`.
    """
    known = integrity.segments if integrity else {}
    found: list[AbortedTransaction] = []
    for segment in segments:
        path = _index_path(file_system, segment)
        aborted = known.get(segment.base_offset, NOTHING_KNOWN).aborted
        if aborted is not None and not begins_as(file_system, path, aborted):
            raise ChangedIndexError(path, 0, "it has changed on the disk")
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
    """What was aborted, by its marker, of what begins in a range of offsets, and has no entry.

    `batches` are all from the range's start on, with the payload of control batches. They are read
    beyond its end until each transaction has ended that was open there. Raises `CorruptionError`
    for one that cannot be read and may be the marker of one of these.
    """
    tail = TransactionTail(offsets[0])
    try:
        for batch in batches:
            if batch.base_offset >= offsets[1] and tail.first_open_offset is None:
                break
            # Without records where compaction has left only the batch's header.
            if batch.is_control or (batch.base_offset < offsets[1] and batch.record_count):
                tail.take(batch)
            else:
                tail.next_offset = batch.last_offset + 1
    except CorruptionError:
        if tail.next_offset < offsets[1] or tail.first_open_offset is not None:
            raise
    return missing_aborts(indexed, tail.aborted)


def report_missing_aborts(
    missing: Sequence[AbortedTransaction], segments: Sequence[SegmentFiles], *, is_tolerated: bool
) -> None:
    """Raises `CorruptionError` for aborts that no index names, or only says so."""
    if not missing:
        return
    last_offset = missing[0].last_offset
    segment = next(one for one in reversed(segments) if one.base_offset <= last_offset)
    path = _index_path_of(segment)
    directory = parent_directory(parent_directory(path))
    reason = f"aborted transactions are missing (offsets {offsets_text(missing)})"
    if not is_tolerated:
        raise CorruptionError(path, 0, f"{reason}; {repair_hint(directory)}")
    logger.warning("%s: %s; their markers in the log count", path, reason)


def _index_path_of(segment: SegmentFiles) -> str:
    return segment.path_of(FileKind.TRANSACTION_INDEX)


def _index_path(file_system: FileSystem, segment: SegmentFiles) -> str:
    """The log of a replaced segment is renamed first, its transaction index last."""
    path = _index_path_of(segment)
    swapped = path + FileSuffix.SWAP.value
    if file_system.status(path) is None and file_system.status(swapped):
        return swapped
    return path
