"""Opens the segments of a log one by one while another process may change them.

Retention and compaction may remove segments during the read. If a segment is gone when it is to be
opened, the directory is listed again and the segment is looked up by offset. Kafka has no
counterpart.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NoReturn

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.storage.segment.partition_files import (
    ListedSegmentFiles,
    PartitionFiles,
    list_partition,
)
from ottla.storage.segment.segment_reader import SegmentReader

REPLACEMENTS_PER_SEGMENT = 100
"""Attempts to open a segment that is replaced between its listing and its opening."""


@dataclass(slots=True)
class Cursor:
    """The next offset of a read. If the segment `is_replaced`, the offset is looked up again."""

    offset: int
    is_replaced: bool = False


class ListedSegments:
    """A log's segments by the latest directory listing, `files`."""

    def __init__(self, file_system: FileSystem, path: str, files: PartitionFiles) -> None:
        self._file_system = file_system
        self._path = path
        self.files = files

    @property
    def values(self) -> ListedSegmentFiles:
        """The segments, ascending by base offset."""
        return self.files.segments

    @property
    def first_offset(self) -> int:
        return self.values.base_offsets[0] if self.values else 0

    @property
    def end_of_files(self) -> tuple[str, int]:
        """The last log file and its size in bytes; the directory and 0 without segments."""
        last = self.values[-1] if self.values else None
        return (last.log_path, last.size) if last else (self._path, 0)

    def from_offset(self, offset: int) -> ListedSegmentFiles:
        """The segment that holds an offset, and all segments after it."""
        return self.values[max(0, self.index_of(offset)) :]

    def list_again(self) -> bool:
        """Lists the segments again; whether compaction or retention has changed them.

        Segments that were added after the first listing are left out (`list_partition`).
        """
        listed = self.values.names
        self.files = self._list(self.files)
        return self.values.names != listed

    def list_all(self) -> None:
        """Lists from scratch, for a partition that may have been deleted and created again."""
        self.files = self._list(None)

    def _list(self, before: PartitionFiles | None) -> PartitionFiles:
        try:
            return list_partition(self._file_system, self._path, before)
        except FileNotFoundError:
            raise UserError(f"{self._path} was removed; read another partition") from None

    def open_last(self) -> SegmentReader | None:
        """Opens the last listed segment; `None` if there is none."""
        # Retention deletes this segment too, once the broker has rolled to a new one.
        for _ in range(REPLACEMENTS_PER_SEGMENT):
            if not self.values:
                return None
            try:
                return SegmentReader(self._file_system, self.values[-1])
            except FileNotFoundError:
                self.list_again()
        raise self._unsteady()

    def readers(
        self, cursor: Cursor, until_offset: int, missing: Callable[[int], NoReturn]
    ) -> Iterator[SegmentReader]:
        """Opens the segments from the cursor's offset to `until_offset`, one at a time.

        Each reader is closed before the next one is opened. `missing` raises the error for an
        offset that no segment holds any more.
        """
        last_base_offset = -1
        while True:
            reader = self._open_next(last_base_offset, cursor.offset, until_offset, missing)
            if reader is None:
                return
            cursor.is_replaced = False
            with closing(reader):
                yield reader
            last_base_offset = -1 if cursor.is_replaced else reader.base_offset

    def _open_next(
        self, after: int, offset: int, until_offset: int, missing: Callable[[int], NoReturn]
    ) -> SegmentReader | None:
        """Opens the segment that holds `offset`, or the first after base offset `after` if later.

        `None` at `until_offset` or after the last segment.
        """
        for _ in range(REPLACEMENTS_PER_SEGMENT):
            if offset >= until_offset:
                return None
            if self.values and self.first_offset > offset:
                # A listing may have been made while compaction renamed the first segment.
                if self.list_again():
                    continue
                missing(offset)
            index = max(self.index_of(offset), self.index_of(after) + 1)
            if index >= len(self.values) or self.values.base_offsets[index] >= until_offset:
                return None
            try:
                return SegmentReader(self._file_system, self.values[index])
            except FileNotFoundError:
                self.list_again()
            if not self.values:
                missing(offset)
            after = -1
        raise self._unsteady()

    def index_of(self, offset: int) -> int:
        """The index of the segment that holds an offset; -1 before the first."""
        return self.values.index_of(offset)

    def _unsteady(self) -> CorruptionError:
        return CorruptionError(self._path, 0, "its files change faster than they can be opened")
