"""What holds of the batches of one log, by their order and their checksums, or is an error."""

import logging
from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.config.setting import INT32_MAX
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.layout import BASE_OFFSET
from ottla.record.record import Record, read_records
from ottla.storage.files.log_file import LogFile

logger = logging.getLogger(__name__)


class OffsetOverflowError(CorruptionError):
    """A sound batch whose offset lies too far from its segment's base offset for an index.

    Kafka: `LogSegmentOffsetOverflowException`.
    """

    def __init__(self, log: LogFile, base_offset: int, position: int, offset: int) -> None:
        reason = f"offset {offset} lies too far from the segment's base offset for an index"
        super().__init__(log.path, position, reason)
        self.log = log
        self.base_offset = base_offset


def sound_batch(log: LogFile, position: int) -> Batch:
    """The batch at a position; raises `CorruptionError` when its checksum is wrong."""
    batch = log.batch(position)
    try:
        batch.check()
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error
    return batch


def checked_records(log: LogFile, position: int) -> Iterator[Record]:
    """The records of the batch at a position; raises `CorruptionError` for a damaged one."""
    return _records(log, position, sound_batch(log, position))


def _records(log: LogFile, position: int, batch: Batch) -> Iterator[Record]:
    try:
        yield from read_records(batch)
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error


def headers_in_order(log: LogFile, base_offset: int) -> list[tuple[int, int, int]]:
    """Position, last offset and largest timestamp of every batch of a segment's log.

    Raises `CorruptionError` where offsets do not ascend or leave the segment's range, or where
    a batch does not end with the file: indexes of that would spread the damage.
    """
    found: list[tuple[int, int, int]] = []
    end, last_offset = 0, base_offset - 1
    for position, header in log.headers():
        if not last_offset < header.last_offset <= base_offset + INT32_MAX:
            reason = f"offset {header.last_offset} does not belong behind {last_offset}"
            raise CorruptionError(log.path, position, reason)
        last_offset = header.last_offset
        found.append((position, last_offset, header.max_timestamp_ms))
        end = position + header.size
    if end != log.written_size:
        raise CorruptionError(log.path, end, "a batch goes beyond the end of the file")
    return found


def is_misplaced(batch: Batch, due_offset: int, limit: int, view: memoryview) -> bool:
    """Whether a batch that does not begin at the offset due is one whose base offset has changed.

    Then it overlaps with the batch before it, or with the one behind. Of the last one only where
    the next segment begins can tell.
    """
    assert isinstance(batch, RecordBatch)
    end = batch.position + batch.size
    if batch.base_offset < due_offset or batch.last_offset >= limit:
        return True
    if end + BASE_OFFSET.size <= len(view):
        following: int = BASE_OFFSET.unpack_from(view, end)[0]
        return due_offset <= following <= batch.last_offset
    return False


def is_flipped_offset(batch: Batch, due_offset: int) -> bool:
    """Whether a batch would begin at the offset due, but for one bit."""
    return batch.magic == 2 and (batch.base_offset ^ due_offset).bit_count() == 1


def warn_of_gap(log: LogFile, position: int, due_offset: int, base_offset: int) -> None:
    """A gap before the last batch of a log may be that, or a base offset that has changed."""
    logger.warning(
        "%s at byte %d: offsets %d to %d are missing before the last batch",
        log.path, position, due_offset, base_offset - 1,
    )  # fmt: skip
