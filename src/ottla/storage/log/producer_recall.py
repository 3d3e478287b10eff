"""Finds a producer's last batches in the log, for a retry after a restart.

A snapshot has one batch of each producer (Kafka's format), but a client may have five in flight
when the broker stops. Nothing is read at start: the first retry that the snapshot cannot answer
reads the headers before the known batch, newest first. Kafka does not search the log: replicas that
were not restarted remember the batches, and without them such a retry fails.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch, InvalidBatchError
from ottla.storage import scan
from ottla.storage.log.producer_state import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
    ProducerEntry,
    Remembered,
)
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)

HEADERS_TO_READ: Final = 1_000
"""The most headers of all producers that are read for one retry, in 1 to 4 ms."""

WINDOW_SIZE: Final = 64 * 1024
"""Bytes of log in one backward step, unless a batch is larger."""


def recall_batches(entry: ProducerEntry, segments: Segments, start_offset: int) -> None:
    """Adds earlier batches of the producer's epoch to an entry, up to five in all."""
    if not entry.batches:
        return
    oldest = BatchMetadata(*entry.batches[0])
    found: list[Remembered] = []
    left = HEADERS_TO_READ
    for window in _windows(segments, oldest.first_offset, start_offset):
        own, count = _batches_of(entry, window, oldest.first_offset)
        found[:0] = own
        left -= count
        is_whole = bool(found) and BatchMetadata(*found[0]).first_sequence == 0
        if is_whole or len(found) + len(entry.batches) >= BATCHES_TO_RETAIN or left <= 0:
            break
    known = list(entry.batches)
    entry.batches.clear()
    entry.batches.extend([*found, *known])  # The deque drops the oldest.


Window = tuple[Segment, int, int]
"""A segment, and the start and end position of a walk in it."""


def _windows(segments: Segments, offset: int, start_offset: int) -> Iterator[Window]:
    """Windows of the log before an offset, the nearest first."""
    for segment in reversed(segments.values[: segments.floor_index(offset) + 1]):
        found = segment.translate(offset)
        end = found.position if found else segment.log.written_size
        while end > 0:
            start = segment.offset_index.position_before(max(end - WINDOW_SIZE, 1))
            if start >= end:
                return  # The index entry is wrong.
            yield segment, start, end
            end = start
        if segment.base_offset <= start_offset:
            return


def _batches_of(
    entry: ProducerEntry, window: Window, before_offset: int
) -> tuple[Sequence[Remembered], int]:
    """The producer's batches of its epoch in a window, and the number of headers read."""
    segment, start, end = window
    own: list[Remembered] = []
    count = 0
    try:
        for position, header in scan.headers(segment.log, start, end):
            count += 1
            if count > HEADERS_TO_READ:
                break  # The index has so few entries that the window is too large.
            if header.producer_id == entry.producer_id and _is_retried(entry, header):
                batch = scan.batch_of(segment.log, position)
                batch.check()
                if batch.last_offset < before_offset:
                    own.append(
                        (
                            batch.last_sequence,
                            batch.last_offset,
                            batch.last_offset_delta,
                            batch.max_timestamp_ms,
                        )
                    )
    except (CorruptionError, InvalidBatchError) as error:
        logger.warning("%s: retries of batches in it are unknown: %s", segment.log.path, error)
        return own, HEADERS_TO_READ
    return own, count


def _is_retried(entry: ProducerEntry, header: Batch) -> bool:
    return (
        header.producer_epoch == entry.epoch and not header.is_control and header.base_sequence >= 0
    )
