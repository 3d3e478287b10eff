"""Aborted transactions from a log's transaction indexes, for those who only read.

An index that was lost, or has lost entries, would let aborted records pass for committed ones. Of
what a broker of ours wrote a copy stands beside it (`segment_witness`): the reader goes by that
then, as the next start of a broker does. Format page: docs/format/transaction-index.md.
"""

import logging
from collections.abc import Iterable
from contextlib import closing

from ottla.base.files import FileSystem, join, parent_directory
from ottla.storage.filenames import FileKind, FileSuffix, witness_file_name
from ottla.storage.segment_reader import SegmentFiles
from ottla.storage.segment_witness import WitnessOfSegment
from ottla.storage.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    collected,
    parse_entries,
)

logger = logging.getLogger(__name__)


def indexed_transactions(
    file_system: FileSystem, segments: Iterable[SegmentFiles], offsets: tuple[int, int]
) -> list[AbortedTransaction]:
    """Those that overlap with [offsets[0], offsets[1]), of segments from the first offset on."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        some, is_complete = _collect(file_system, segment, offsets)
        found += some
        if is_complete:
            break
    return found


def _collect(
    file_system: FileSystem, segment: SegmentFiles, offsets: tuple[int, int]
) -> tuple[list[AbortedTransaction], bool]:
    path = _index_path(file_system, segment)
    directory = parent_directory(segment.log_path)
    witness = WitnessOfSegment(file_system, join(directory, witness_file_name(segment.base_offset)))
    mended = witness.mended(path)
    if mended is not None:
        logger.warning("%s has changed on the disk; %s knows better", path, witness.path)
        entries = parse_entries(path, mended)
        return collected((one for one in entries if one.last_offset >= offsets[0]), offsets[1])
    index = TransactionIndex(file_system, path, base_offset=segment.base_offset, writable=False)
    with closing(index):
        return index.collect(*offsets)


def _index_path(file_system: FileSystem, segment: SegmentFiles) -> str:
    """The log of a replaced segment is renamed first, its transaction index last."""
    path = segment.path_of(FileKind.TRANSACTION_INDEX)
    swapped = path + FileSuffix.SWAP.value
    if file_system.status(path) is None and file_system.status(swapped):
        return swapped
    return path
