"""The `.cleaned` files of one group of segments.

A group usually becomes one segment, and several if the retained data exceeds a segment's offset
range or size. A crash leaves files that recovery removes. Kafka's counterpart:
`UnifiedLog.createNewCleanedSegment`.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from ottla.base.files import Buffer, FileSystem, join, remove_if_present
from ottla.config.setting import INT32_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import batch_at
from ottla.storage.files.filenames import FileSuffix, segment_file_names
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset


class CleanedSegment(Segment):
    """A compacted segment that is not yet part of its log."""

    __slots__ = ()
    SUFFIX = FileSuffix.CLEANED


class CleanedSegments:
    """Writes batches, in the order of the log, to new segments; `finish` makes them durable."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        segment_index_bytes: int,
        while_making: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._first_base_offset = base_offset
        self._config = TopicConfig(
            index_interval_bytes=index_interval_bytes, segment_index_bytes=segment_index_bytes
        )
        self._while_making = while_making
        self._segments: list[Segment] = []

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(one.base_offset for one in self._segments)

    def begin(self) -> None:
        """Creates the first segment's files; there is always one, even without retained records."""
        self._begin(self._first_base_offset)

    def _begin(self, base_offset: int) -> None:
        with self._while_making():
            # A failed pass may have left files; appending to them would mix two passes.
            for name in segment_file_names(base_offset, FileSuffix.CLEANED):
                remove_if_present(self._file_system, join(self._directory, name))
            segment = CleanedSegment(
                self._file_system,
                self._directory,
                base_offset,
                config=self._config,
                created_ms=0,
                create=True,
            )
            self._segments.append(segment)
            # Opens the indexes, so that all files are created under the guard.
            _ = segment.offset_index, segment.time_index

    def append(self, content: Buffer, last_offset: int) -> None:
        """Adds a batch; the caller must not change `content` before `write_out`."""
        segment = self._segments[-1]
        span = last_offset - segment.base_offset
        if span > INT32_MAX or segment.size + len(content) > INT32_MAX:
            self.write_out()
            segment.become_inactive()
            self._begin(batch_at(content).base_offset)
            segment = self._segments[-1]
        largest = TimestampOffset(batch_at(content).max_timestamp_ms, last_offset)
        segment.append(content, last_offset, largest)

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Records aborted transactions whose markers are retained."""
        for one in transactions:
            self._segments[-1].transaction_index.append(one)

    def write_out(self) -> int:
        """Writes the pending appends; returns the number of bytes."""
        log = self._segments[-1].log
        size = log.size - log.written_size
        log.write_out()
        return size

    def finish(self, modified_ms: int) -> None:
        """Makes the segments durable, with the modification time of a source, and closes them."""
        self.write_out()
        self._segments[-1].become_inactive()
        for segment in self._segments:
            self._file_system.set_modified_ms(segment.log.path, modified_ms)
            segment.sync()
            segment.close_files()

    def remove(self) -> None:
        """Removes all files written so far."""
        for segment in self._segments:
            segment.close_files()
            for path in segment.files():
                remove_if_present(self._file_system, path)
