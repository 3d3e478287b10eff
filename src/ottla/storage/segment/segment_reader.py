"""Reads a segment's files without changing them, also while a broker writes them.

Format pages: docs/format/README.md lists the files. Nothing is repaired: a missing, damaged or
outdated index only makes lookups slower, and a torn tail ends the log. Kafka has no counterpart:
its tools that read files (`kafka-dump-log`) begin at a segment's start.
"""

import logging

# Compiled, a dataclass looks the types of its fields up in the module.
from builtins import memoryview
from collections.abc import Callable, Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.storage import scan
from ottla.storage.files.filenames import MAX_OFFSET, FileKind
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.segment.segment_view import AnyIndex, SegmentView, Trust

logger = logging.getLogger(__name__)

REGION_SIZE = 1024 * 1024
"""Bytes of one read, unless a single batch is larger."""

SHORT_SIZE = 4096
"""Up to this size in bytes a log is scanned from its start, as opening its index costs as much."""


class Region:
    """Consecutive whole batches as stored in a log file, from byte `position`.

    `next_offset` is the offset after the last batch. Not a dataclass, since a compiled one cannot
    have a field of type `memoryview`.
    """

    __slots__ = ("data", "next_offset", "path", "position")

    def __init__(self, path: str, position: int, data: memoryview, next_offset: int) -> None:
        self.path = path
        self.position = position
        self.data = data
        self.next_offset = next_offset


class SegmentReader(SegmentView):
    """An open segment, to be closed by `close`; raises `FileNotFoundError` if it was deleted."""

    __slots__ = ("_are_indexes_refused", "files")

    def __init__(self, file_system: FileSystem, files: SegmentFiles) -> None:
        file = file_system.open(files.log_path)
        log = LogFile(file_system, file, file.size())
        super().__init__(file_system, files.base_offset, log, Trust.FOREIGN)
        self.files = files
        self._are_indexes_refused = False

    def close(self) -> None:
        self._abandon_indexes()
        self.log.close()

    def search_start(self, offset: int) -> int:
        """As `SegmentView.search_start`, without an index for a short file."""
        if self.log.size <= SHORT_SIZE:
            return 0
        return SegmentView.search_start(self, offset)

    def open_offset_index(self) -> OffsetIndex | None:
        if self._offset_index is None:
            self._offset_index = self._open_index(OffsetIndex, FileKind.OFFSET_INDEX)
        return self._offset_index

    def open_time_index(self) -> TimeIndex | None:
        if self._time_index is None:
            self._time_index = self._open_index(TimeIndex, FileKind.TIME_INDEX)
        return self._time_index

    def _open_index(self, of: type[AnyIndex], kind: FileKind) -> AnyIndex | None:
        if self._are_indexes_refused:
            return None
        path = self.files.path_of(kind)
        index = of(self._file_system, path, base_offset=self.base_offset, writable=False)
        return index if _makes_sense(index) else None

    def refuse_indexes(self, reason: str) -> None:
        logger.warning("%s; the indexes are skipped", reason)
        self._are_indexes_refused = True
        self._abandon_indexes()

    def _abandon_indexes(self) -> None:
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.abandon()
        self._offset_index = self._time_index = None

    def tail(self) -> "SegmentTail":
        """The end of the sound batches, found by checking batches from the last index entry."""
        end = self.base_offset
        sound_end = self.search_start(MAX_OFFSET)
        checks = (scan.Ascending(self.base_offset),)
        try:
            for position, header in scan.headers(self.log, sound_end, checks=checks):
                scan.sound_batch(self.log, position)
                end = header.last_offset + 1
                sound_end = position + header.size
        except CorruptionError:
            return SegmentTail(end, is_whole=False, position=sound_end)
        return SegmentTail(end, is_whole=sound_end >= self.log.size, position=sound_end)

    def regions(
        self,
        from_offset: int,
        until_offset: int,
        size: int | None = None,
        *,
        limit: int | None = None,
        on_gap: Callable[[str, int, tuple[int, int]], None] | None = None,
    ) -> Iterator[Region]:
        """The batches that overlap with [from_offset, until_offset), about `size` bytes at a time.

        `size` is REGION_SIZE by default. Raises `CorruptionError` unless headers are in order and
        before `limit` up to `until_offset` or the end of the file; CRCs are not checked. `on_gap`
        is called with the path, the position and the offsets of each gap before a batch. Whoever
        lets go of a region before asking for the next one has it read to the same memory, which is
        then in the processor's cache.
        """
        position = self._first_position(from_offset) if from_offset < until_offset else None
        wanted = least = size or REGION_SIZE
        span = scan.Span(self.base_offset, until_offset, limit)
        span.due_offset = from_offset
        span.on_gap = on_gap
        while position is not None and position < self.log.size:
            left = min(wanted, self.log.size - position)
            chunk = memoryview(self.log.read(position, left))
            if len(chunk) < left:
                raise CorruptionError(self.log.path, position, "the file was truncated meanwhile")
            whole = scan.whole_batches(self.log, chunk, position, span)
            if whole.size:
                data, chunk = chunk[: whole.size], memoryview(b"")
                region = Region(self.log.path, position, data, whole.last_offset + 1)
                del data
                yield region
                del region  # nothing here keeps its memory
                position += whole.size
            if whole.next_size is None:
                return
            if position + whole.next_size > self.log.size:
                raise CorruptionError(self.log.path, position, "a batch is cut short")
            wanted = max(least, whole.next_size)

    def _first_position(self, offset: int) -> int | None:
        """The position of the first batch that ends at `offset` or later; `None` without one."""
        # No index is opened for the first batch: of many small segments that would cost most.
        start = self.search_start(offset) if offset > self.base_offset else 0
        found = scan.search_offset(self.log, offset, start)
        if found is None:
            self._check_order(start, self.log.size)
            return None
        if found[1].magic < 2 or found[1].base_offset <= offset:
            return found[0]
        # Compaction left a gap here, or the header of the wanted batch is damaged.
        if start:
            start = self.search_start(scan.batch_of(self.log, start).base_offset - 1)
        self._check_order(start, found[0] + 1)
        return found[0]

    def _check_order(self, start: int, end: int) -> None:
        """Raises `CorruptionError` unless the batches from `start` ascend and lead to `end`."""
        checks = (scan.Ascending(self.base_offset),)
        for position, header in scan.headers(self.log, start, allow_torn_tail=False):
            if position >= end:
                return
            scan.run_checks(checks, header, self.log.path, position)


def _makes_sense(index: OffsetIndex | TimeIndex) -> bool:
    """Whether an index exists and passes its sanity check; otherwise closes it."""
    try:
        index.sanity_check()
    except (FileNotFoundError, CorruptionError):
        index.abandon()
        return False
    return True


@dataclass(frozen=True, slots=True)
class SegmentTail:
    """The end of a segment's sound batches."""

    end_offset: int
    """The offset after the last batch; the base offset without a batch."""
    is_whole: bool
    """Whether the file ends there; otherwise a torn append or preallocated space follows."""
    position: int
    """Where the sound batches end."""
