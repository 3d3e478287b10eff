"""One segment: a log file and its indexes.

Format pages: docs/format/README.md lists the five files. A crash can leave the indexes ahead of the
log or behind it; `segment_recovery` rebuilds them from the log. Kafka's counterpart: `LogSegment`.
"""

import logging
from typing import ClassVar, Final

from ottla.base.files import Buffer, FileSlice, FileSystem, join, remove_if_present
from ottla.config.setting import INT32_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.files.filenames import (
    FileKind,
    FileName,
    FileSuffix,
    segment_file_names,
)
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.tail_positions import TailPositions
from ottla.storage.index.time_index import ENTRY as TIME_ENTRY
from ottla.storage.index.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.index.transaction_index import TransactionIndex
from ottla.storage.segment.checked_ranges import CheckedRanges
from ottla.storage.segment.segment_view import (
    FOUND,
    OURS,
    AnyIndex,
    SegmentView,
    TimestampOffset,
)

logger = logging.getLogger(__name__)

OPEN_INDEX_DESCRIPTORS: Final = 5
"""Descriptors of two mapped indexes, for each of which Python keeps a second descriptor with the
map, and of the transaction index."""


class Segment(SegmentView):
    """Appends and lookups in one segment. Indexes are opened when first used (KIP-263)."""

    SUFFIX: ClassVar = FileSuffix.LIVE
    """The suffix of the segment's file names."""

    __slots__ = (
        "_config",
        "_index_rooms",
        "_is_used",
        "_last_entry",
        "_tail",
        "checked_ranges",
        "created_ms",
        "directory",
        "transaction_index",
        "unchecked_size",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        *,
        config: TopicConfig,
        created_ms: int,
        create: bool = False,
    ) -> None:
        log = LogFile.open(
            file_system,
            _path_of(directory, base_offset, FileKind.LOG, self.SUFFIX),
            create=create,
            allocate=config.segment_bytes if create and config.preallocate else 0,
        )
        super().__init__(file_system, base_offset, log, OURS if create else FOUND)
        self._config = config
        self.directory = directory
        self.created_ms = created_ms
        self.transaction_index = TransactionIndex(
            file_system,
            self._path(FileKind.TRANSACTION_INDEX),
            base_offset=base_offset,
        )
        self._is_used = False
        self._last_entry = 0
        # The allocated sizes of closed offset and time indexes without an entry, whose files do
        # not show them.
        self._index_rooms = (0, 0)
        self._tail = TailPositions()
        self.unchecked_size = 0 if create else self.log.size
        self.checked_ranges = CheckedRanges()

    @property
    def size(self) -> int:
        return self.log.size

    @property
    def is_compacted(self) -> bool:
        return self._config.is_compacted

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            room = self._index_rooms[0]
            self._offset_index = self._open_index(OffsetIndex, FileKind.OFFSET_INDEX, room)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            room = self._index_rooms[1]
            self._time_index = self._open_index(TimeIndex, FileKind.TIME_INDEX, room)
        return self._time_index

    def _open_index(self, of: type[AnyIndex], kind: FileKind, room: int) -> AnyIndex:
        if not self.open_indexes:
            self._file_system.open_files.opened(self, OPEN_INDEX_DESCRIPTORS)
        index = of(
            self._file_system,
            self._path(kind),
            base_offset=self.base_offset,
            max_index_size=self._config.segment_index_bytes,
        )
        if room:
            index.resize(room)
        return index

    @property
    def is_offset_index_full(self) -> bool:
        return (self._offset_index or self.offset_index).is_full

    @property
    def is_time_index_full(self) -> bool:
        return (self._time_index or self.time_index).is_full

    def _path(self, kind: FileKind) -> str:
        return _path_of(self.directory, self.base_offset, kind, self.SUFFIX)

    def reconfigure(self, config: TopicConfig) -> None:
        self._config = config

    # Appending

    def append(self, buffer: Buffer, last_offset: int, largest: TimestampOffset) -> None:
        """Queues batches and, when due, adds index entries; see `LogFile.append`."""
        assert 0 <= last_offset - self.base_offset <= INT32_MAX
        self._is_used = True
        size = self.log.size
        if size == 0:
            self._first_timestamp_ms = largest.timestamp_ms
        if largest.timestamp_ms > (self._max or self.largest).timestamp_ms:
            self._max = largest
        if self._tail.size > self._config.index_interval_bytes:
            self._add_index_entries(last_offset, size)
            self._tail.indexed()
        self.log.append(buffer)
        self._tail.add(size, last_offset, len(buffer))

    def take_largest(self, seen: TimestampOffset) -> None:
        if seen.timestamp_ms > self.largest.timestamp_ms:
            self._max = seen

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        largest = self.largest
        self.time_index.append(largest.timestamp_ms, largest.offset)

    # Reading

    def search_start(self, offset: int) -> int:
        """The position of a batch at or before an offset."""
        if offset <= self.base_offset:
            return 0  # without an index: a read of many small segments would open each
        position = self._tail.position_of(offset)
        if position is not None:
            return position
        self._is_used = True
        return SegmentView.search_start(self, offset)

    def open_offset_index(self) -> OffsetIndex | None:
        return self.offset_index

    def open_time_index(self) -> TimeIndex | None:
        return self.time_index

    def refuse_indexes(self, reason: str) -> None:
        logger.warning("%s; the indexes are rebuilt", reason)
        self.rebuild_indexes()

    def read(
        self, offset: int, max_size: int, max_position: int, min_one_message: bool
    ) -> FileSlice | None:
        """The slice of up to `max_size` bytes from the batch of `offset`, before `max_position`.

        With `min_one_message` the first batch is returned whole even if it is larger than
        `max_size`. `None` if the segment holds nothing at or after `offset`.
        """
        found = self.translate(offset)
        if found is None:
            return None
        wanted = max(max_size, found.size) if min_one_message else max_size
        size = max(0, min(wanted, max_position - found.position))
        return self.log.slice(found.position, size)

    # Recovering and ending

    def forget_checks(self, size: int) -> None:
        """Marks the headers of the first `size` bytes as unchecked; see `header_check`."""
        self.unchecked_size = size
        self.checked_ranges = CheckedRanges()

    def rebuild_indexes(self) -> None:
        """Rebuilds the offset and the time index from the log's headers, durably.

        Raises `CorruptionError` if the log itself is damaged, and changes nothing then.
        """
        ascending = scan.Ascending(self.base_offset, self.base_offset + INT32_MAX + 1)
        found = list(scan.headers(self.log, checks=(ascending,), allow_torn_tail=False))
        room = self.offset_index.size, self.time_index.size
        self.begin_indexes_again()
        for position, batch in found:
            self.index(position, batch)
        self.close_indexes_off()
        self.offset_index.resize(max(room[0], self.offset_index.size))
        self.time_index.resize(max(room[1], self.time_index.size))
        self.offset_index.sync()
        self.time_index.sync()

    def begin_indexes_again(self) -> None:
        """Discards both indexes; `index` must then be called for every batch in order."""
        self.offset_index.delete()
        self.time_index.delete()
        self.trust = OURS
        self._max = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp_ms = None
        self._last_entry = 0

    def index(self, position: int, batch: Batch) -> None:
        """Adds a stored batch to indexes that are being rebuilt."""
        largest = self._max
        assert largest is not None
        if batch.max_timestamp_ms > largest.timestamp_ms:
            self._max = TimestampOffset(batch.max_timestamp_ms, batch.last_offset)
        if position - self._last_entry > self._config.index_interval_bytes:
            self._add_index_entries(batch.last_offset, position)
            self._last_entry = position

    def close_indexes_off(self) -> None:
        """Appends the largest timestamp to the time index, and trims both indexes."""
        largest = self.largest
        last_ms, last_offset = self.time_index.last_entry
        is_behind = last_ms <= largest.timestamp_ms and last_offset <= largest.offset
        # The last slot of a full index is reserved for this entry; a `segment.index.bytes` smaller
        # than one entry leaves no slot at all.
        if is_behind and largest.timestamp_ms >= 0 and self.time_index.max_entry_count:
            self.time_index.append(largest.timestamp_ms, largest.offset, skip_full_check=True)
        self.offset_index.trim()
        self.time_index.trim()

    def keep_largest(self) -> None:
        """Appends the largest timestamp to a time index that is closed off already, if it fits."""
        if self.time_index.entry_count < self._config.segment_index_bytes // TIME_ENTRY.size:
            self.become_active()
            self.close_indexes_off()

    def become_inactive(self) -> None:
        """Trims the files of an active segment on rolling (Kafka: `onBecomeInactiveSegment`)."""
        self.close_indexes_off()
        self.log.trim()
        # Looked for now, and not for thousands of segments at once by the first read of committed
        # records.
        self.transaction_index.look_for_file()

    def check_last_entry(self, end_offset: int) -> None:
        """Rebuilds the indexes if their last entry is wrong.

        An entry after the log's end or with a wrong timestamp would block later appends, as entries
        must ascend.
        """
        index = self.offset_index
        if self.trust is not OURS and index.entry_count and index.last_offset >= end_offset:
            logger.warning(
                "%s ends at offset %d, after its log; the indexes are rebuilt",
                index.path, index.last_offset,
            )  # fmt: skip
            self.rebuild_indexes()
        if self.trust is not OURS:
            self._indexed_largest()  # compares the last time entry with the log

    def become_active(self) -> None:
        """Resizes the indexes to `segment.index.bytes`, for appends."""
        self.offset_index.resize(self._config.segment_index_bytes)
        self.time_index.resize(self._config.segment_index_bytes)

    def truncate_to(self, offset: int) -> int:
        """Removes the batches that reach `offset` or beyond; returns the bytes removed."""
        self.log.write_out()
        found = self.translate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.become_active()
        removed = self.log.truncate_to(found.position) if found else 0
        self.forget_checks(min(self.unchecked_size, self.log.size))
        if self.log.size == 0:
            self._first_timestamp_ms = None
        self._tail.cut()
        self._max = None
        self._max = self.largest_to_end()
        return removed

    @property
    def open_indexes(self) -> list[OffsetIndex | TimeIndex]:
        return [one for one in (self._offset_index, self._time_index) if one is not None]

    def sync(self) -> None:
        """Makes the log and its indexes durable."""
        self.log.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def files(self) -> list[str]:
        """The paths of all files that the segment may have, the log last."""
        names = segment_file_names(self.base_offset, self.SUFFIX)
        return [join(self.directory, name) for name in names]

    def let_go(self) -> bool:
        """Closes the indexes until their next use, unless they were used since the last call.

        Returns whether they were closed. Unlike the log, they may be unsynced. A write of them that
        fails later is detected, since reopened indexes are compared with the log (`Trust.FOUND`).
        """
        was_used, self._is_used = self._is_used, False
        if was_used:
            return False
        offset_room, time_room = self._index_rooms
        self._index_rooms = (
            _room_of(self._offset_index, offset_room),
            _room_of(self._time_index, time_room),
        )
        for index in self.open_indexes:
            if index.is_open and index.entry_count:
                self.trust = FOUND
            index.abandon()
        self._offset_index = self._time_index = None
        self.transaction_index.let_go()
        return True

    def let_go_at_once(self) -> None:
        """Closes the indexes and, if possible, the log file of a segment that is not in use."""
        self._is_used = False
        if self.open_indexes and self.let_go():
            self._file_system.open_files.closed(self)
        self.log.let_go_at_once()

    def synced(self) -> None:
        """Records that the current state of all files was synced through other descriptors."""
        self.log.synced()
        self.transaction_index.synced()

    def close_files(self) -> None:
        """Closes every file without syncing, when the directory is offline or before a deletion."""
        self.close_indexes()
        self.log.close()

    def close_indexes(self) -> None:
        for index in self.open_indexes:
            index.abandon()
        self._offset_index = self._time_index = None
        self.transaction_index.close()
        self._file_system.open_files.closed(self)

    def delete(self) -> None:
        """Closes and removes all files of the segment."""
        self.close_files()
        # The log is removed last: until then the segment is complete, as indexes can be rebuilt.
        for path in self.files():
            remove_if_present(self._file_system, path)


def _path_of(directory: str, base_offset: int, kind: FileKind, suffix: FileSuffix) -> str:
    return join(directory, FileName(offset=base_offset, kind=kind, suffix=suffix).text)


def _room_of(index: OffsetIndex | TimeIndex | None, known: int) -> int:
    if index is None or not index.is_open:
        return known
    return 0 if index.entry_count else index.size
