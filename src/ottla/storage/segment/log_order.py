"""How recovery treats a sound batch that does not begin at the end offset of the batch before."""

import logging

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch, RecordBatch
from ottla.record.layout import BASE_OFFSET
from ottla.storage.files.log_file import LogFile
from ottla.storage.scan import ahead_of_next, out_of_place

logger = logging.getLogger(__name__)


class OffsetOverflowError(CorruptionError):
    """A sound batch whose offset is too far from its segment's base offset for an index.

    Kafka: `LogSegmentOffsetOverflowException`.
    """

    def __init__(self, log: LogFile, base_offset: int, position: int, offset: int) -> None:
        reason = f"offset {offset} is too far from the segment's base offset for an index"
        super().__init__(log.path, position, reason)
        self.log = log
        self.base_offset = base_offset


def damaged_offset(batch: Batch, due_offset: int, limit: int, view: memoryview) -> str | None:
    """The reason why a batch that does not begin at `due_offset` has a damaged base offset.

    Its offsets then overlap with the batch before it, with the batch after it, or with the next
    segment, which begins at `limit`.
    """
    assert isinstance(batch, RecordBatch)
    end = batch.position + batch.size
    reason = out_of_place(batch, 0, due_offset, limit)
    if reason is None and end + BASE_OFFSET.size <= len(view):
        following: int = BASE_OFFSET.unpack_from(view, end)[0]
        return ahead_of_next(batch, due_offset, following)
    return reason


def is_flipped_offset(batch: Batch, due_offset: int) -> bool:
    """Whether a batch's base offset differs from `due_offset` in exactly one bit."""
    return batch.magic == 2 and (batch.base_offset ^ due_offset).bit_count() == 1


def warn_of_gap(log: LogFile, position: int, due_offset: int, base_offset: int) -> None:
    """Logs a gap before a batch: offsets are missing, or its base offset is damaged."""
    logger.warning(
        "%s at byte %d: offsets %d to %d are missing",
        log.path, position, due_offset, base_offset - 1,
    )  # fmt: skip
