"""Judges the files that are uploaded with a log by what is known of their segment.

Most have no checksum: entries that are out of order, or outside the segment, show that a file is
damaged, or another segment's. Format pages: docs/format/offset-index.md, time-index.md,
transaction-index.md, producer-snapshot.md, leader-epochs.md.
"""

from operator import le, lt

from ottla.base.errors import CorruptionError
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.index import offset_index, time_index
from ottla.storage.index.producer_snapshot import parse_snapshot
from ottla.storage.index.transaction_index import ENTRY, check_order, parse_entries
from ottla.storage.log.leader_epochs import parse_epoch_entries
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata


def check_index(
    segment: RemoteLogSegmentMetadata, kind: IndexType, content: bytes, path: str
) -> None:
    """Raises `CorruptionError` for a file that is not the segment's."""
    _CHECKS[kind](segment, content, path)


def _check_offsets(segment: RemoteLogSegmentMetadata, content: bytes, path: str) -> None:
    _check_size(content, offset_index.ENTRY.size, path)
    entries = list(offset_index.ENTRY.iter_unpack(content))
    if not _ascends([one[0] for one in entries]) or not _ascends([one[1] for one in entries]):
        raise CorruptionError(path, 0, "its entries are out of order")
    if entries and not _holds(segment, entries[0][0], entries[-1][0]):
        raise CorruptionError(path, 0, "it has offsets of another segment")
    if entries and not 0 <= entries[0][1] <= entries[-1][1] < segment.size:
        raise CorruptionError(path, 0, "it has positions outside the segment's log")


def _check_times(segment: RemoteLogSegmentMetadata, content: bytes, path: str) -> None:
    _check_size(content, time_index.ENTRY.size, path)
    entries = list(time_index.ENTRY.iter_unpack(content))
    offsets = [one[1] for one in entries]
    if not _ascends([one[0] for one in entries]) or not all(map(le, offsets, offsets[1:])):
        raise CorruptionError(path, 0, "its entries are out of order")
    if entries and not _holds(segment, offsets[0], offsets[-1]):
        raise CorruptionError(path, 0, "it has offsets of another segment")
    if entries and entries[-1][0] > segment.max_timestamp_ms:
        raise CorruptionError(path, 0, "it has timestamps of another segment")


def _check_transactions(segment: RemoteLogSegmentMetadata, content: bytes, path: str) -> None:
    _check_size(content, ENTRY.size, path)
    entries = list(parse_entries(path, content))
    check_order(path, entries, segment.start_offset)
    if entries and entries[-1].last_offset > segment.end_offset:
        raise CorruptionError(path, 0, "it has offsets of another segment")


def _check_producers(segment: RemoteLogSegmentMetadata, content: bytes, path: str) -> None:
    producers = parse_snapshot(path, content)
    if any(one.last_offset > segment.end_offset for one in producers):
        raise CorruptionError(path, 0, "it has offsets after the segment")


def _check_epochs(segment: RemoteLogSegmentMetadata, content: bytes, path: str) -> None:
    starts = {one.epoch: one.start_offset for one in parse_epoch_entries(path, content)}
    if any(start > segment.end_offset for start in starts.values()):
        raise CorruptionError(path, 0, "it has offsets after the segment")
    for number, (epoch, start) in enumerate(segment.leader_epochs):
        found = starts.get(epoch, MAX_OFFSET)
        # The first may begin before the segment, which then has it from its own start.
        if found > start or (number and found < start):
            reason = f"it does not have the segment's leader epoch {epoch} from {start}"
            raise CorruptionError(path, 0, reason)


_CHECKS = {
    IndexType.OFFSET: _check_offsets,
    IndexType.TIMESTAMP: _check_times,
    IndexType.TRANSACTION: _check_transactions,
    IndexType.PRODUCER_SNAPSHOT: _check_producers,
    IndexType.LEADER_EPOCH: _check_epochs,
}


def _check_size(content: bytes, entry_size: int, path: str) -> None:
    if excess := len(content) % entry_size:
        reason = f"its size, {len(content)}, is not a multiple of {entry_size}"
        raise CorruptionError(path, len(content) - excess, reason)


def _ascends(values: list[int]) -> bool:
    return all(map(lt, values, values[1:]))


def _holds(segment: RemoteLogSegmentMetadata, first: int, last: int) -> bool:
    """Whether offsets relative to the segment's start are in it."""
    return 0 <= first <= last <= segment.end_offset - segment.start_offset
