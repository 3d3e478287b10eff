"""A segment's `.log` as bytes: appended at the end, read by position. `scan` parses its batches.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. A crash can leave a torn
last batch, or arbitrary bytes where a block was never written; recovery truncates the file at the
first batch that fails its check. Kafka's counterpart: `FileRecords`.
"""

import errno
import logging

from ottla.base.file_copies import unshare
from ottla.base.files import Buffer, File, FileSlice, FileSystem, is_shortage
from ottla.record.layout import BASE_OFFSET

logger = logging.getLogger(__name__)


class LogFile:
    """Buffers appends in memory until `write_out`, so that one receive causes one vectored write.

    `size` counts them; `written_size` does not. Buffers given to `append` must stay unchanged
    until `write_out` returns.

    The file may be closed between two uses (`let_go`), and the next use opens it again: any method
    may therefore raise `OSError`. An unsynced file is kept open: the system reports a failed write
    to the open descriptors only, so an fsync through a later descriptor could succeed.
    """

    __slots__ = (
        "_file",
        "_file_system",
        "_is_closed",
        "_is_own",
        "_is_used",
        "_path",
        "_pending",
        "is_unsynced",
        "size",
        "written_size",
    )

    def __init__(self, file_system: FileSystem, file: File, size: int) -> None:
        self._file_system = file_system
        self._file: File | None = file
        self._path = file.path
        self._is_used = False
        self._is_closed = False
        self._is_own = False
        self.is_unsynced = False
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
        log = cls(file_system, file, size)
        file_system.open_files.opened(log)
        return log

    @property
    def path(self) -> str:
        return self._path

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed for good, since its log or segment was closed or removed."""
        return self._is_closed

    def _opened(self) -> File:
        self._is_used = True
        return self._file if self._file is not None else self._open_again()

    def _open_again(self) -> File:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        open_files = self._file_system.open_files
        try:
            file = self._file_system.open(self._path, writable=True)
        except OSError as error:
            if is_shortage(error):
                open_files.ran_out()
            raise
        self._file = file
        open_files.opened(self)
        return file

    def let_go(self) -> bool:
        """Releases the file, unless it was used since the last call or must be synced.

        Responses that contain slices of the file keep it open until they are sent: only this
        reference is dropped.
        """
        was_used, self._is_used = self._is_used, False
        if was_used or self.is_unsynced or self._pending:
            return False
        self._file = None
        return True

    def let_go_at_once(self) -> None:
        """Like `let_go`, but also after a recent use; no response may contain slices of it."""
        self._is_used = False
        file = self._file
        if file is not None and self.let_go():
            file.close()
            self._file_system.open_files.closed(self)

    def keep_open(self) -> None:
        """Opens the file if necessary, and keeps it open until it is synced.

        Raises `OSError` (EMFILE) if too many files are kept open already.
        """
        if not self.is_unsynced:
            if self._file_system.open_files.is_full:
                raise OSError(errno.EMFILE, "too many files wait for a sync", self._path)
            self._opened()
            self.is_unsynced = True

    def synced(self) -> None:
        """Records that all of the file was synced through another descriptor."""
        self.is_unsynced = bool(self._pending)

    def _make_own(self) -> None:
        """Called before the first change: a snapshot may share the file, and must not change.

        A later snapshot shares only files that take no more appends, or few: `truncate_to` checks
        again.
        """
        if unshare(self._file_system, self._path):
            # Not closed: responses may contain slices of it, and its bytes are the same.
            self._file = self._file_system.open(self._path, writable=True)
        self._is_own = True

    def append(self, buffer: Buffer) -> int:
        """Adds bytes after the last; returns their position."""
        position = self.size
        self._pending.append(buffer)
        self.size = position + len(buffer)
        return position

    def write_out(self) -> None:
        """Writes all buffered appends to the operating system."""
        pending = self._pending
        if not pending:
            return
        if not self._is_own:
            self._make_own()
        file = self._file
        if file is None:
            file = self._open_again()
        self.is_unsynced = True
        if len(pending) == 1:
            file.pwrite(pending[0], self.written_size)
        else:
            file.pwritev(pending, self.written_size)
        self._pending = []
        self.written_size = self.size

    def stamp_base_offset(self, position: int, offset: int) -> None:
        """Overwrites a stored batch's base offset, which its checksum does not cover."""
        logger.warning(
            "%s at byte %d: the base offset has changed on the disk; restored to %d",
            self.path, position, offset,
        )  # fmt: skip
        if not self._is_own:
            self._make_own()
        self._opened().pwrite(BASE_OFFSET.pack(offset), position)
        self.is_unsynced = True

    def slice(self, position: int, size: int) -> FileSlice:
        file = self._file
        if file is None:
            file = self._open_again()
        self._is_used = True
        return FileSlice(file, position, size)

    def lend(self) -> FileSlice:
        """All that is written, in a file of its own, for the caller to close: this one is not kept
        open for it.
        """
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        file = self._file
        own = self._file_system.open(self._path) if file is None else file.duplicate()
        return FileSlice(own, 0, self.written_size)

    def read(self, position: int, size: int) -> bytes:
        file = self._file  # `_opened`, inlined: every fetch calls this
        if file is None:
            file = self._open_again()
        self._is_used = True
        return file.pread(size, position)

    def reader(self) -> File:
        """The file itself, for readers, which must not change or close it."""
        return self._opened()

    def map(self) -> memoryview:
        """Maps the written part, read-only; release the map before `truncate_to`."""
        return self._opened().map(self.written_size)

    def truncate_to(self, size: int) -> int:
        """Truncates the file; returns the number of bytes removed."""
        assert not self._pending, "write out before cutting"
        assert size <= self.size
        removed = self.size - size
        if removed:
            self._make_own()
            self._opened().truncate(size)
            self.size = self.written_size = size
        return removed

    def trim(self) -> None:
        """Frees the space that was allocated after the last batch."""
        self.write_out()
        file = self._opened()
        if file.size() > self.written_size:
            file.truncate(self.written_size)

    def sync(self) -> None:
        self.write_out()
        self._opened().sync()
        self.is_unsynced = False

    def renamed(self, path: str) -> None:
        """Records that a directory above the file was renamed."""
        self._path = path
        if self._file is not None:
            self._file.renamed(path)

    def rename(self, path: str) -> None:
        self._file_system.rename(self.path, path)
        self.renamed(path)

    def close(self) -> None:
        """Closes the file for good, also to readers."""
        self._is_closed = True
        self._file_system.open_files.closed(self)
        if self._file is not None:
            self._file.close()
