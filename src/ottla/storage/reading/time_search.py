"""Finds the first offset at a timestamp in a log that is only read.

Format page: docs/format/time-index.md. The time index of a rolled segment below the recovery point
ends with the segment's largest timestamp, so earlier segments are skipped by it. Other segments are
scanned from the last index entry before the timestamp. Kafka's counterpart:
`UnifiedLog.fetchOffsetByTimestamp`.
"""

from contextlib import closing

from ottla.record.batch import RecordBatch
from ottla.record.record import read_records
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.segment.segment_reader import SegmentReader


def first_offset_at(log: ReadOnlyLog, timestamp_ms: int) -> int | None:
    """As `first_at`, without the timestamp."""
    found = first_at(log, timestamp_ms)
    return None if found is None else found[0]


def first_at(log: ReadOnlyLog, timestamp_ms: int) -> tuple[int, int] | None:
    """The offset and timestamp of the first record with at least that timestamp; `None` if there is
    none.

    Raises as the reads of `ReadOnlyLog` do.
    """
    until = log.log_end_offset
    segments = log.segments
    ends = [*segments.base_offsets[1:], until]
    for segment, end in zip(segments, ends, strict=False):
        if end <= log.log_start_offset:
            continue
        is_sure = end < until and end <= log.offsets.recovery_point
        start = _search_start(log, segment, timestamp_ms, is_sure=is_sure)
        if start is None:
            continue
        found = _walk(log, timestamp_ms, start, end)
        if found is not None:
            return found
    return None


def _search_start(
    log: ReadOnlyLog, files: SegmentFiles, timestamp_ms: int, *, is_sure: bool
) -> int | None:
    """The offset to scan from; `None` if all records of the segment are earlier.

    `is_sure` says that the segment's time index is complete.
    """
    try:
        with closing(SegmentReader(log.directory.file_system, files)) as reader:
            if is_sure and 0 <= reader.largest.timestamp_ms < timestamp_ms:
                return None
            return reader.search_start_offset(timestamp_ms)
    except FileNotFoundError:
        return files.base_offset


def _walk(
    log: ReadOnlyLog, timestamp_ms: int, from_offset: int, until_offset: int
) -> tuple[int, int] | None:
    start = log.log_start_offset
    for batch in log.batches.read(max(from_offset, start), until_offset):
        if batch.is_control or (
            isinstance(batch, RecordBatch) and batch.max_timestamp_ms < timestamp_ms
        ):
            continue
        for record in read_records(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start:
                return record.offset, record.timestamp_ms
    return None
