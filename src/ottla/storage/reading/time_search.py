"""From a time to an offset in a log that is only read. Format: docs/format/time-index.md

Kafka's counterpart: `UnifiedLog.fetchOffsetByTimestamp`. The largest timestamp of a segment stands
in its time index once it was rolled, and is sure up to the recovery point; behind that the log
itself is walked from the index's last entry before the time.
"""

from itertools import pairwise

from ottla.base.errors import CorruptionError
from ottla.record.batch import RecordBatch
from ottla.record.record import read_records
from ottla.storage.files.filenames import FileKind
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.reading.reader import ReadOnlyLog
from ottla.storage.segment.segment_reader import SegmentFiles


def first_offset_at(log: ReadOnlyLog, timestamp_ms: int) -> int | None:
    """The first offset whose record has that timestamp or a later one; `None` without one.

    Raises as the reads of `ReadOnlyLog` do.
    """
    until = log.log_end_offset
    bounds = [*(segment.base_offset for segment in log.segments), until]
    for segment, (_, end) in zip(tuple(log.segments), pairwise(bounds), strict=True):
        if end <= log.log_start_offset:
            continue
        indexed, largest_ms = _looked_up(log, segment, timestamp_ms)
        if end < until and end <= log.recovery_point and largest_ms < timestamp_ms:
            continue
        found = _walk(log, timestamp_ms, max(indexed, log.log_start_offset), end)
        if found is not None:
            return found
    return None


def _looked_up(log: ReadOnlyLog, segment: SegmentFiles, timestamp_ms: int) -> tuple[int, int]:
    """Where to begin, and the largest timestamp that the index knows.

    The largest is as late as can be where the index cannot be read.
    """
    index = TimeIndex(
        log.directory.file_system,
        segment.path_of(FileKind.TIME_INDEX),
        base_offset=segment.base_offset,
        writable=False,
    )
    try:
        index.sanity_check()
        # The entry itself may be of the time that is sought, and an earlier record as well.
        _, offset = index.lookup(timestamp_ms - 1)
        return offset, index.last_entry[0]
    except (FileNotFoundError, CorruptionError):
        return segment.base_offset, timestamp_ms
    finally:
        index.abandon()


def _walk(log: ReadOnlyLog, timestamp_ms: int, from_offset: int, until_offset: int) -> int | None:
    for batch in log.batches(from_offset, until_offset):
        if batch.is_control or (
            isinstance(batch, RecordBatch) and batch.max_timestamp_ms < timestamp_ms
        ):
            continue
        for record in read_records(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                return record.offset
    return None
