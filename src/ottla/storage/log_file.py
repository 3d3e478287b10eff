"""A segment's `.log`: batches one behind the other, appended at the end, read by position.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. A crash can leave a torn
last batch, or nonsense where a block was never written; `recovery` cuts the file at the first
batch that fails its check. Kafka's counterpart: `FileRecords`.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, File, FileSlice, FileSystem
from ottla.record.batch import BASE_OFFSET, Batch, InvalidBatchError, batch_at

logger = logging.getLogger(__name__)

HEADER_CHUNK_SIZE = 4096 + 61
"""Bytes read at once while walking headers: an index interval, so that most lookups read once."""

MIN_HEADER_SIZE: Final = 61
"""Enough bytes to tell any batch's offsets, size and magic."""

PLACE = Struct(
    ">q"  # base offset
    "i"  # bytes behind this field
    "4x"  # leader epoch
    "b"  # magic
    "6x"  # checksum and attributes
    "i"  # last offset delta
)
assert PLACE.size == 27
"""What of a v2 header it takes to step over the batch."""

SIZE_END: Final = 12
LEAST_READABLE: Final = 17
"""Up to and with the magic."""


class LogFile:
    """Appends wait in memory until `write_out`, so that one receive makes one vectored write.

    `size` counts them; `written_size` does not. Buffers given to `append` must stay unchanged
    until `write_out` returns.
    """

    __slots__ = ("_file", "_file_system", "_pending", "size", "written_size")

    def __init__(self, file_system: FileSystem, file: File, size: int) -> None:
        self._file_system = file_system
        self._file = file
        self._pending: list[Buffer] = []
        self.size = size
        self.written_size = size

    @classmethod
    def open(
        cls, file_system: FileSystem, path: str, *, create: bool = False, allocate: int = 0
    ) -> "LogFile":
        """Opens for appending; `allocate` makes a new file that long, to be trimmed later."""
        file = file_system.open(path, writable=True, create=create)
        size = file.size()
        if create and size == 0 and allocate:
            file.truncate(allocate)
        return cls(file_system, file, size)

    @property
    def path(self) -> str:
        return self._file.path

    def append(self, buffer: Buffer) -> int:
        """Adds bytes behind the last; returns their position."""
        position = self.size
        self._pending.append(buffer)
        self.size = position + len(buffer)
        return position

    def write_out(self) -> None:
        """Gives the operating system all that was appended."""
        pending = self._pending
        if not pending:
            return
        if len(pending) == 1:
            self._file.pwrite(pending[0], self.written_size)
        else:
            self._file.pwritev(pending, self.written_size)
        self._pending = []
        self.written_size = self.size

    def stamp_base_offset(self, position: int, offset: int) -> None:
        """Gives a stored batch another base offset, which its checksum does not cover."""
        logger.warning(
            "%s at byte %d: the base offset has changed on the disk; it is %d again",
            self.path, position, offset,
        )  # fmt: skip
        self._file.pwrite(BASE_OFFSET.pack(offset), position)

    def slice(self, position: int, size: int) -> FileSlice:
        return FileSlice(self._file, position, size)

    def read(self, position: int, size: int) -> bytes:
        return self._file.pread(size, position)

    def reader(self) -> File:
        """The file itself, for those who only read it; it is not theirs to close."""
        return self._file

    def map(self) -> memoryview:
        """All that is written, read-only; release it before `truncate_to`."""
        return self._file.map(self.written_size)

    def batch(self, position: int) -> Batch:
        """The whole batch at a position, with its payload.

        Raises `CorruptionError` when there is none.
        """
        header = self._header_at(self.read(position, MIN_HEADER_SIZE), 0, position)
        return self._header_at(self.read(position, header.size), 0, position)

    def headers(self, position: int = 0, until: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Positions and headers of the batches from `position`; payloads may be missing.

        Ends at `until` or at the last whole batch. Raises `CorruptionError` for nonsense.
        """
        end = self.written_size if until is None else min(until, self.written_size)
        chunk, chunk_start = b"", position
        while position + MIN_HEADER_SIZE <= end or position < end:
            inside = position - chunk_start
            if inside + MIN_HEADER_SIZE > len(chunk):
                chunk, chunk_start, inside = self.read(position, HEADER_CHUNK_SIZE), position, 0
            if len(chunk) - inside < LEAST_READABLE:
                return
            header = self._header_at(chunk, inside, position)
            if position + header.size > end:
                return
            yield position, header
            position += header.size

    def header_at(self, position: int) -> Batch | None:
        """The header of a batch that lies whole in the file, or `None` for anything else."""
        end = self.written_size
        if not 0 <= position < end:
            return None
        try:
            header = batch_at(self.read(position, MIN_HEADER_SIZE), 0)
        except InvalidBatchError:
            return None
        return header if position + header.size <= end else None

    def _header_at(self, buffer: bytes, inside: int, position: int) -> Batch:
        try:
            return batch_at(buffer, inside)
        except InvalidBatchError as error:
            raise CorruptionError(self.path, position, str(error)) from error

    def search_offset(self, offset: int, position: int) -> tuple[int, Batch] | None:
        """The first batch from `position` that ends at `offset` or later, with its position."""
        end = self.written_size
        chunk, chunk_start, chunk_size = b"", position, HEADER_CHUNK_SIZE
        while position < end:
            inside = position - chunk_start
            if inside + MIN_HEADER_SIZE > len(chunk):
                # Not beyond the end, where a second call would have to say so.
                size = min(chunk_size, end - position)
                chunk, chunk_start, inside = self.read(position, size), position, 0
                # Behind the first chunk lies the successor of a batch as large: one header will do.
                chunk_size = MIN_HEADER_SIZE
            if len(chunk) >= inside + MIN_HEADER_SIZE:
                base_offset, length, magic, delta = PLACE.unpack_from(chunk, inside)
                size = length + SIZE_END
                is_sound = magic == 2 and delta >= 0 and MIN_HEADER_SIZE <= size <= end - position
                if is_sound and 0 <= base_offset < offset - delta:
                    position += size
                    continue
            elif len(chunk) - inside < LEAST_READABLE:
                return None
            # The wanted batch, one of an old format, or nonsense.
            header = self._header_at(chunk, inside, position)
            if position + header.size > end:
                return None
            if header.last_offset >= offset:
                return position, header
            position += header.size
        return None

    def truncate_to(self, size: int) -> int:
        """Cuts the file; returns how many bytes went."""
        assert not self._pending, "write out before cutting"
        assert size <= self.size
        removed = self.size - size
        if removed:
            self._file.truncate(size)
            self.size = self.written_size = size
        return removed

    def trim(self) -> None:
        """Gives back what was allocated beyond the last batch."""
        self.write_out()
        if self._file.size() > self.written_size:
            self._file.truncate(self.written_size)

    def sync(self) -> None:
        self.write_out()
        self._file.sync()

    def renamed(self, path: str) -> None:
        """Takes note that a directory above the file was renamed."""
        self._file.renamed(path)

    def rename(self, path: str) -> None:
        self._file_system.rename(self.path, path)
        self._file.renamed(path)

    def close(self) -> None:
        self._file.close()
