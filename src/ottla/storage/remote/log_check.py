"""Whether a log and its offset index are those of a segment, by the headers of single batches."""

from collections.abc import Callable
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE
from ottla.storage.index.offset_index import ENTRY
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.scan import first_offset_in_header

FIRST_SIZE: Final = HEADER_SIZE
"""How many bytes of a log `check_first` wants."""


def check_first(segment: RemoteLogSegmentMetadata, content: Buffer, path: str) -> None:
    """Raises `CorruptionError` if a log begins with a batch that the segment cannot have: the log
    of another segment may have the same size.
    """
    try:
        first = batch_at(content)
    except InvalidBatchError as error:
        raise CorruptionError(path, 0, str(error)) from error
    offset = first_offset_in_header(first)
    if not segment.start_offset <= offset <= segment.end_offset:
        raise CorruptionError(path, 0, f"it begins at offset {offset}, as another segment's log")
    if first.max_timestamp_ms > segment.max_timestamp_ms:
        reason = f"it has the timestamp {first.max_timestamp_ms}, as another segment's log"
        raise CorruptionError(path, 0, reason)


def check_last_entry(
    segment: RemoteLogSegmentMetadata,
    index: bytes,
    read: Callable[[int, int], Buffer],
    path: str,
) -> None:
    """Raises `CorruptionError` unless the last entry of an offset index points at a batch that can
    have its offset. `read` reads bytes of the log by position and size.
    """
    if not index:
        return
    relative, position = ENTRY.unpack_from(index, len(index) - ENTRY.size)
    try:
        found = batch_at(read(position, HEADER_SIZE))
    except InvalidBatchError as error:
        reason = f"it points at byte {position} of the log, where no batch begins: {error}"
        raise CorruptionError(path, len(index) - ENTRY.size, reason) from error
    offset = first_offset_in_header(found)
    if not segment.start_offset <= offset <= segment.start_offset + relative:
        reason = f"it points at byte {position} of the log, where offset {offset} begins"
        raise CorruptionError(path, len(index) - ENTRY.size, reason)
