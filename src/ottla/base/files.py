"""The interface to the disk: storage changes files only through a `FileSystem`.

`OsFileSystem` is the real one. `ottla.testing` has others that record, fail and forget; contract
tests hold all of them to the docstrings below. Paths are strings. An `OSError` passes through
unchanged, since only the caller knows which directory must go offline.
"""

import contextlib
import errno
import mmap
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, Protocol

from ottla.base.directories import make_directories
from ottla.base.exchange import exchange_names
from ottla.base.file_locks import OsFileLock, holder_of_lock, take_lock
from ottla.base.open_files import OpenFiles
from ottla.base.regular_files import open_regular
from ottla.base.values import dataclass

Buffer = bytes | bytearray | memoryview
"""Bytes to write; a `memoryview` must be contiguous and of single bytes."""

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors from a lack of descriptors or memory; see `is_shortage`."""

IOV_MAX: Final = 1024
"""The maximum number of buffers in one vectored write on Linux and macOS."""


class FileStatus(NamedTuple):
    """The file or directory with a name; a rename takes the file's number along."""

    number: int
    """The inode number: unique among the files that exist at one time."""
    size: int
    modified_ms: int
    is_directory: bool
    link_count: int = 1
    """The number of names of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The size of a disk, and the bytes that this process may still use."""

    total: int
    usable: int


class File(Protocol):
    """An open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str:
        """The path with which the file was opened, or the last one set by `renamed`."""

    def renamed(self, path: str) -> None:
        """Sets the path of the object after its file was renamed."""

    def fileno(self) -> int:
        """The descriptor that `os.sendfile` takes."""

    def duplicate(self) -> "File":
        """The same file opened again, independent of `close` of this object."""

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pwrite(self, buffer: Buffer, position: int) -> None:
        """Writes all of `buffer`, or raises."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Writes all of `buffers`, one after the other, or raises."""

    def truncate(self, size: int) -> None:
        """Cuts, or extends with zeros. No existing `map` may reach past the new end."""

    def map(self, size: int) -> memoryview:
        """A read-only view of the first `size` bytes that follows later writes.

        `ValueError` when the file is shorter. The view outlives `close`; release it, and all that
        was sliced from it, before cutting the file below it.
        """

    def map_numbers(self, count: int) -> "Numbers":
        """The first `count` signed numbers of 64 bits, the machine's own; to be read and changed.

        `ValueError` when the file is shorter. It must not be cut below them. A change is in the
        file at once: only a power failure loses it.
        """

    def sync(self) -> None:
        """Makes content and size durable; the modification time may be lost.

        The file's name is durable only after `sync_directory` of its parent. After an error the
        unsynced bytes are in doubt, whatever a second call says: never make one.
        """

    def close(self) -> None:
        """Closes the file without syncing; only another `close` is allowed afterwards."""


class Numbers(Protocol):
    """A list of numbers of a fixed size."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class FileSystem(Protocol):
    """The operations of storage on a disk."""

    @property
    def open_files(self) -> OpenFiles:
        """The holders of files that this object opened."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        """Opens a regular file; `create` makes it when it is missing (and implies `writable`).

        Anything else of that name (a FIFO, a link, a device) is an `OSError` at once.
        """

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def names(self, directory: str) -> Sequence[str]:
        """As `list`, in any order: sorting forty thousand takes half as long as listing them."""

    def list_others(self, directory: str) -> Sequence[str]:
        """The names in a directory that are not regular files, sorted: folders, links, FIFOs."""

    def some_files(self, directory: str, max_count: int) -> Sequence[str]:
        """The names of up to `max_count` regular files in a directory, in no order: cheap however
        many there are.
        """

    def boot_id(self) -> str:
        """Differs after each start of the system; empty if the system does not say.

        While it is the same, what a killed process has written is still there.
        """

    def status(self, path: str) -> FileStatus | None:
        """Size, time and kind, or `None` when there is nothing there.

        A link that leads nowhere is something; `open` refuses it.
        """

    def sizes(self, directory: str, names: Iterable[str]) -> Sequence[int | None]:
        """The bytes of each of these files, as by `status`: a log has ten thousand."""

    def read_start(self, path: str, size: int) -> bytes:
        """Up to `size` bytes from the start of a file, for a reader who knows what has to be there:
        unlike `open` it may refuse what is no regular file only by what is read.
        """

    def restrict(self, path: str) -> None:
        """Lets only its owner read and write a file."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Gives a file another modification time; the file's next `sync` keeps it."""

    def space(self, path: str) -> DiskSpace:
        """The size of the disk with a file or directory, and its free space."""

    def canonical(self, path: str) -> str:
        """The absolute path of a place, without symbolic links, dots and double slashes.

        Missing parts keep their names. Never raises.
        """

    def make_directory(self, path: str) -> None:
        """Makes a directory and its parents; no error when it exists.

        Each one made is durable only after `sync_directory` of the one above it.
        """

    def rename(self, source: str, target: str) -> None:
        """Replaces `target` atomically, a file by a file, an empty directory by a directory.

        Durable only after `sync_directory` of the parent, or of both when they differ.
        """

    def link(self, source: str, target: str) -> None:
        """Gives a file a second, unused name.

        Durable only after `sync_directory` of the parent of `target`. Not every file system can.
        """

    def exchange(self, one: str, other: str) -> None:
        """Exchanges two existing names atomically.

        Durable only after `sync_directory` of both parents. Not every system can.
        """

    def remove(self, path: str) -> None:
        """Removes a file's name; a process that has it open or mapped keeps its content."""

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Makes creations, renames and removals in a directory durable."""

    def lock(self, path: str) -> "FileLock | None":
        """Takes an exclusive advisory lock on a file, made if needed; `None` when it is taken.

        Waits some seconds for a lock that only a killed process or its children still have.
        Do not open that file while the lock is held: POSIX drops a process's record locks with
        the first descriptor of the file that the process closes.
        """

    def lock_holder(self, path: str) -> int | None:
        """The id of the process that holds a lock on a file; 0 if it is not visible from here.

        `None` if no process holds the lock, or only a process to which it was lent.
        """


def is_this_process(holder: int) -> bool:
    """Whether `FileSystem.lock_holder` returned this process."""
    return holder == os.getpid()


class FileLock(Protocol):
    def lend(self) -> int | None:
        """A descriptor that keeps the lock for as long as a process has it open.

        For a child process that must outlive this one while no other process uses the directory.
        `None` if the system does not support it.
        """

    def release(self) -> None:
        """Releases the lock. A second release does nothing."""


@dataclass(slots=True)
class FileSlice:
    """A range of bytes in a file, which can be sent to a socket without a copy.

    Not frozen, because one is created for every read.
    """

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)

    def duplicate(self) -> "FileSlice":
        """The same bytes, readable even if the file is closed or removed meanwhile."""
        return FileSlice(self.file.duplicate(), self.position, self.size)


def read_file(file_system: FileSystem, path: str, most: int | None = None) -> bytes:
    """The content of a small file, or its first `most` bytes; raises `FileNotFoundError`."""
    file = file_system.open(path)
    try:
        return file.pread(file.size() if most is None else most, 0)
    finally:
        file.close()


def replace_file(
    file_system: FileSystem,
    path: str,
    content: Buffer,
    *,
    durably: bool = True,
    is_directory_synced: bool = True,
    is_secret: bool = False,
) -> None:
    """Replaces a small file atomically: a crash leaves the old content or the new one.

    Temporary file, fsync, rename, fsync of the directory: Kafka's `Utils.atomicMoveWithFallback`.
    Without the two fsyncs (`durably=False`) a power failure can leave any content: for files that
    show whether they are complete and that can be rebuilt. Without `is_directory_synced` the caller
    must sync the directory. A crash or an error can leave `path.tmp`, which nothing reads: the next
    call for the same path overwrites it, and the cleanup of the directory at start may remove it.
    With `is_secret` only the owner can read the file, even while it is written.
    """
    temporary = path + ".tmp"
    write_file(file_system, temporary, [content], durably=durably, is_secret=is_secret)
    file_system.rename(temporary, path)
    if durably and is_directory_synced:
        file_system.sync_directory(parent_directory(path))


def write_file(
    file_system: FileSystem,
    path: str,
    parts: Iterable[Buffer],
    *,
    durably: bool = True,
    is_secret: bool = False,
) -> None:
    """Writes a file, replacing what a crash may have left of it."""
    file = file_system.open(path, create=True)
    try:
        if is_secret:
            file_system.restrict(path)
        file.truncate(0)
        position = 0
        for part in parts:
            file.pwrite(part, position)
            position += len(part)
        if durably:
            file.sync()
    finally:
        file.close()


def make_durable_directory(file_system: FileSystem, path: str) -> None:
    """Creates a directory and its parents durably."""
    missing = []
    ancestor = path
    while file_system.status(ancestor) is None:
        missing.append(ancestor)
        ancestor = parent_directory(ancestor)
    file_system.make_directory(path)
    for made in missing:
        file_system.sync_directory(parent_directory(made))


def sync_file(file_system: FileSystem, path: str) -> None:
    """Syncs the content of a file that need not be open."""
    file = file_system.open(path, writable=True)
    try:
        file.sync()
    finally:
        file.close()


def is_shortage(error: OSError) -> bool:
    """Whether a call failed for lack of descriptors or memory in the process or the system.

    In this case nothing was done, the disk is not broken, and the call may succeed later. Only for
    calls that name a file (open, create, rename, remove): after a failed write or sync it is
    unknown what reached the disk.
    """
    return error.errno in SHORTAGES and error.filename is not None


def remove_if_present(file_system: FileSystem, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        file_system.remove(path)


def parent_directory(path: str) -> str:
    return os.path.dirname(path.rstrip("/") or path) or "."


def join(directory: str, *names: str) -> str:
    """Like `os.path.join` for relative names; several times faster, and called often."""
    below = "/".join(names)
    return f"{directory}/{below}" if directory and directory[-1] != "/" else directory + below


def base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


class OsFileSystem:
    """The files of the operating system."""

    def __init__(self) -> None:
        self.open_files = OpenFiles()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> "OsFile":
        flags = os.O_RDWR if writable or create else os.O_RDONLY
        return OsFile(path, open_regular(path, flags | (os.O_CREAT if create else 0)))

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def names(self, directory: str) -> Sequence[str]:
        return os.listdir(directory)

    def list_others(self, directory: str) -> Sequence[str]:
        with os.scandir(directory) as entries:
            return sorted(one.name for one in entries if not one.is_file(follow_symlinks=False))

    def some_files(self, directory: str, max_count: int) -> Sequence[str]:
        with os.scandir(directory) as entries:
            files = (one.name for one in entries if one.is_file(follow_symlinks=False))
            return list(islice(files, max_count))

    def boot_id(self) -> str:
        return _boot_id()

    def status(self, path: str) -> FileStatus | None:
        try:
            status = _stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStatus(
            number=status.st_ino,
            size=status.st_size,
            modified_ms=status.st_mtime_ns // 1_000_000,
            is_directory=stat.S_ISDIR(status.st_mode),
            link_count=status.st_nlink,
        )

    def sizes(self, directory: str, names: Iterable[str]) -> Sequence[int | None]:
        start, found = join(directory, ""), list[int | None]()
        for name in names:
            try:
                found.append(os.stat(start + name).st_size)
            except OSError:
                status = self.status(start + name)
                found.append(None if status is None else status.size)
        return found

    def read_start(self, path: str, size: int) -> bytes:
        descriptor = os.open(path, _START_FLAGS)
        try:
            data = os.pread(descriptor, size, 0)
        finally:
            os.close(descriptor)
        return data if len(data) == size else _read_all(self, path, size)

    def restrict(self, path: str) -> None:
        os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)

    def space(self, path: str) -> DiskSpace:
        status = os.statvfs(path)
        return DiskSpace(
            total=status.f_blocks * status.f_frsize, usable=status.f_bavail * status.f_frsize
        )

    def canonical(self, path: str) -> str:
        if "\0" in path:
            return path  # such a file cannot exist, and system calls reject the name
        return "/" + os.path.realpath(path).lstrip("/")  # POSIX gives two leading slashes a meaning

    def make_directory(self, path: str) -> None:
        make_directories(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)

    def exchange(self, one: str, other: str) -> None:
        exchange_names(one, other)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = _open_directory(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsFileLock | None:
        return take_lock(path)

    def lock_holder(self, path: str) -> int | None:
        return holder_of_lock(path)


_START_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def _read_all(file_system: FileSystem, path: str, size: int) -> bytes:
    """The start of a file that is shorter, or of which one call has read less."""
    with contextlib.closing(file_system.open(path)) as file:
        return file.pread(size, 0)


@cache
def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return os.lstat(path)


_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SPARE: list[int] = []
"""A reserved descriptor, opened at the first use."""


def _open_directory(path: str) -> int:
    """Opens a directory to sync it, with the reserved descriptor if there is no other.

    The changes are complete by then, so this must not fail for lack of a descriptor.
    """
    try:
        descriptor = os.open(path, _DIRECTORY_FLAGS)
        if not _SPARE:
            with contextlib.suppress(OSError):
                _SPARE.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return descriptor
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
    _release_spare()
    try:
        return os.open(path, _DIRECTORY_FLAGS)
    except OSError as error:
        # Without a file name, so that `is_shortage` is false: a rename may not be durable.
        raise OSError(error.errno, f"{error.strerror}: {path}") from error


def _release_spare() -> None:
    with contextlib.suppress(IndexError):
        os.close(_SPARE.pop())


class OsFile:
    """A descriptor with positional reads and complete writes.

    The last reference closes it: a response that refers to a file keeps it open until it is sent.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @property
    def path(self) -> str:
        return self._path

    def renamed(self, path: str) -> None:
        self._path = path

    def fileno(self) -> int:
        return self._descriptor

    def duplicate(self) -> "OsFile":
        return OsFile(self._path, os.dup(self._descriptor))

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        while data and sum(map(len, parts)) < size:
            done = sum(map(len, parts))
            data = os.pread(self._descriptor, size - done, position + done)
            parts.append(data)
        return b"".join(parts)

    def pwrite(self, buffer: Buffer, position: int) -> None:
        try:
            written = os.pwrite(self._descriptor, buffer, position)
        except OSError as error:
            error.filename = self._path
            raise
        if written != len(buffer):
            self._write_rest([buffer], position, written)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        if position == -1:  # pwritev2, which `os.pwritev` calls, reads it as the current offset
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._path)
        for start in range(0, len(buffers), IOV_MAX):
            some = buffers[start : start + IOV_MAX]
            expected = sum(map(len, some))
            try:
                written = os.pwritev(self._descriptor, some, position)
            except OSError as error:
                error.filename = self._path
                raise
            if written != expected:
                self._write_rest(some, position, written)
            position += expected

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int) -> None:
        """Continues after a partial write (a signal, a nearly full disk, over 2 GiB)."""
        skip = written
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            while skip < len(view):
                count = os.pwrite(self._descriptor, view[skip:], position + skip)
                if count == 0:
                    raise OSError(errno.ENOSPC, "the disk took no more bytes", self._path)
                skip += count
            position += len(view)
            skip -= len(view)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def map(self, size: int) -> memoryview:
        if size > self.size():  # also raises if closed, where mmap would map empty memory
            raise ValueError(f"a map of {size} bytes is longer than {self._path}")
        if size == 0:
            return memoryview(b"")
        try:
            return self._mapped(size)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
        _release_spare()
        try:
            return self._mapped(size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from error

    def _mapped(self, size: int) -> memoryview:
        if sys.version_info >= (3, 13):
            # Earlier versions keep a second descriptor open for the lifetime of the map.
            return memoryview(
                mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False)
            )
        return memoryview(mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ))

    def map_numbers(self, count: int) -> Numbers:
        size = count * 8
        if size > self.size():
            raise ValueError(f"a map of {size} bytes is longer than {self._path}")
        if sys.version_info >= (3, 13):
            mapped = mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, trackfd=False)
        else:
            mapped = mmap.mmap(self._descriptor, size, mmap.MAP_SHARED)
        return memoryview(mapped).cast("q")

    def sync(self) -> None:
        if self._descriptor < 0:  # `os.fdatasync` would raise ValueError
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        try:
            _sync_content(self._descriptor)
        except OSError as error:
            error.filename = self._path
            raise

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # missing if an interrupt came before it was set
            self.close()


_sync_content = getattr(os, "fdatasync", os.fsync)
"""fdatasync also syncs the size; it saves a journal commit if only the time has changed."""
