"""The lookups in one segment: by offset, by time, and the largest timestamp.

Indexes have no checksums. `Trust` says how far they are checked: indexes that this process wrote
are trusted; indexes found in its own directory are compared with the log's headers, and rebuilt if
wrong; indexes in another process's directory, which may be in use, are compared with whole batches
and their CRCs, and skipped if wrong. Kafka's counterpart: the reads of `LogSegment`; Kafka trusts
its indexes.
"""

import logging
from enum import Enum
from typing import Final, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.record.batch import Batch, InvalidBatchError
from ottla.storage import scan
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.segment.largest_timestamp import largest_without_indexes

logger = logging.getLogger(__name__)

AnyIndex = TypeVar("AnyIndex", OffsetIndex, TimeIndex)


class Trust(Enum):
    """Where a segment's indexes come from, and so how they are checked; see above."""

    OURS = "ours"
    FOUND = "found"
    FOREIGN = "foreign"


OURS: Final = Trust.OURS
FOUND: Final = Trust.FOUND
FOREIGN: Final = Trust.FOREIGN


@dataclass(slots=True, init=False)
class TimestampOffset:
    """A timestamp and the last offset of its batch; `timestamp_ms` is -1 without a timestamp.

    Not frozen, for speed: each append needs one.
    """

    timestamp_ms: int
    offset: int

    def __init__(self, timestamp_ms: int, offset: int) -> None:
        self.timestamp_ms = timestamp_ms
        self.offset = offset


@dataclass(slots=True)
class FoundBatch:
    """The result of a lookup: a batch's last offset, its position and its size in bytes."""

    last_offset: int
    position: int
    size: int


class SegmentView:
    """A log and its indexes, which a subclass opens and closes."""

    __slots__ = (
        "_file_system",
        "_first_timestamp_ms",
        "_max",
        "_offset_index",
        "_time_index",
        "base_offset",
        "log",
        "trust",
    )

    def __init__(
        self, file_system: FileSystem, base_offset: int, log: LogFile, trust: Trust
    ) -> None:
        self._file_system = file_system
        self.base_offset = base_offset
        self.log = log
        self.trust = trust
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._max: TimestampOffset | None = None
        self._first_timestamp_ms: int | None = None

    # Implemented by subclasses

    def open_offset_index(self) -> OffsetIndex | None:
        """The offset index, opened if necessary; `None` if it is missing or damaged."""
        raise NotImplementedError

    def open_time_index(self) -> TimeIndex | None:
        """As `open_offset_index`, for the time index."""
        raise NotImplementedError

    def refuse_indexes(self, reason: str) -> None:
        """Rebuilds or discards the indexes, as one contradicts the log."""
        raise NotImplementedError

    # By offset

    def translate(self, offset: int) -> FoundBatch | None:
        """The batch that holds `offset`, or the next one after a gap that compaction left."""
        found = scan.search_offset(self.log, offset, self.search_start(offset))
        if found is None:
            return None
        position, header = found
        return FoundBatch(header.last_offset, position, header.size)

    def search_start(self, offset: int) -> int:
        """The position of a batch at or before an offset."""
        index = self._offset_index or self.open_offset_index()
        if index is None:
            return 0
        indexed_offset, position = index.lookup(offset)
        if position == 0 or self._begins_batch(position, indexed_offset, offset):
            return position
        self.refuse_indexes(
            f"{index.path}: offset {indexed_offset} is not at byte {position} of {self.log.path}"
        )
        index = self.open_offset_index()
        return 0 if index is None else index.lookup(offset)[1]

    def _begins_batch(self, position: int, indexed_offset: int, offset: int) -> bool:
        """Whether a batch begins at a position and is not after the offset that is searched for."""
        if self.trust is OURS:
            return 0 <= position <= self.log.size
        # Batches that are appended together have one entry, with the last offset of all and the
        # position of the first, so the offsets need not be equal. Old brokers indexed by the first
        # offset, which a message set's wrapper does not have in its header.
        header = scan.header_at(self.log, position)
        if header is None:
            return False
        if self.trust is FOUND:
            return self.base_offset <= header.last_offset <= indexed_offset
        try:
            first_offset = scan.sound_batch(self.log, position).base_offset
        except (CorruptionError, InvalidBatchError):
            return False
        return self.base_offset <= first_offset <= offset

    def last_header(self) -> Batch | None:
        """The header of the last batch; `None` in an empty segment."""
        last = scan.last_header(self.log, self.search_start(self.base_offset + INT32_MAX))
        return None if last is None else last[1]

    def next_offset(self) -> int:
        """The offset after the last record; the base offset in an empty segment."""
        last = self.last_header()
        return last.last_offset + 1 if last else self.base_offset

    # By time

    def search_start_offset(self, timestamp_ms: int) -> int:
        """An offset before which every record is earlier than a timestamp."""
        index = self._time_index or self.open_time_index()
        if index is None:
            return self.base_offset
        found_ms, offset = index.lookup(timestamp_ms)
        if found_ms == NO_TIMESTAMP or self._has_timestamp(found_ms, offset):
            return offset
        self._refuse_time(index.path, found_ms, offset)
        index = self.open_time_index()
        return self.base_offset if index is None else index.lookup(timestamp_ms)[1]

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp and its offset, up to the last time index entry if just opened.

        Closed indexes stay closed if the log confirms their last entries.
        """
        if self._max is None:
            found = self._time_index is None and largest_without_indexes(
                self._file_system, self.base_offset, self.log
            )
            self._max = TimestampOffset(*(found or self._indexed_largest()))
        return self._max

    def _indexed_largest(self) -> tuple[int, int]:
        """The last entry of the time index, as (timestamp_ms, offset); a wrong one is refused."""
        index = self._time_index or self.open_time_index()
        if index is None or index.entry_count == 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp_ms, offset = index.last_entry
        try:
            if not self._has_timestamp(timestamp_ms, offset):
                self._refuse_time(index.path, timestamp_ms, offset)
                index = self.open_time_index()
                return (NO_TIMESTAMP, self.base_offset) if index is None else index.last_entry
        except CorruptionError as error:
            logger.error("%s; the time index is used unchecked", error)
        return timestamp_ms, offset

    def largest_to_end(self) -> TimestampOffset:
        """The largest timestamp, also of batches after the last index entry (as Kafka does).

        A foreign segment is read up to the first damage, which may be the torn end of a log that is
        being written.
        """
        largest = self.largest
        try:
            for _, header in scan.headers(self.log, self.search_start(largest.offset)):
                if header.max_timestamp_ms > largest.timestamp_ms:
                    largest = TimestampOffset(header.max_timestamp_ms, header.last_offset)
        except CorruptionError:
            if self.trust is not FOREIGN:
                raise
        return largest

    def _has_timestamp(self, timestamp_ms: int, offset: int) -> bool:
        """Whether a timestamp is the largest of the batch that holds an offset.

        Raises `CorruptionError` if the timestamps differ but the batch is damaged, as the index may
        be right then; false in a foreign segment.
        """
        if self.trust is OURS:
            return True
        try:
            found = self.translate(offset)
            header = None if found is None else scan.header_at(self.log, found.position)
            if found is None or header is None:
                return False
            if header.max_timestamp_ms == timestamp_ms:
                return True
            scan.sound_batch(self.log, found.position)
        except CorruptionError:
            if self.trust is not FOREIGN:
                raise
        return False

    def _refuse_time(self, path: str, timestamp_ms: int, offset: int) -> None:
        self.refuse_indexes(
            f"{path}: offset {offset} does not have timestamp {timestamp_ms} in {self.log.path}"
        )

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, from which `segment.ms` counts.

        -1 if the segment is empty, or the batch has no timestamp or is damaged: then `segment.ms`
        counts from the segment's creation.
        """
        if self._first_timestamp_ms is None:
            try:
                first = next(scan.headers(self.log), None)
            except CorruptionError:
                # Reads raise for the damaged batch; appends after it continue.
                self._first_timestamp_ms = NO_TIMESTAMP
                return NO_TIMESTAMP
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    def largest_timestamp_ms(self) -> int:
        """The timestamp for retention: the largest, or the file's modification time without one."""
        if self.largest.timestamp_ms >= 0:
            return self.largest.timestamp_ms
        status = self._file_system.status(self.log.path)
        return status.modified_ms if status else 0
