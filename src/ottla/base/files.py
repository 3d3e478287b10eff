"""The disk as an object: everything that storage does to files goes through a `FileSystem`.

`OsFileSystem` is the machine's. `ottla.testing` has others that record, fail and forget, and the
contract tests hold all of them to the sentences below. Paths are strings; an `OSError` passes
through unchanged, since only the caller knows which directory must go offline.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.base.directories import make_directories
from ottla.base.exchange import exchange_names
from ottla.base.open_files import OpenFiles
from ottla.base.values import dataclass

Buffer = bytes | bytearray | memoryview
"""Bytes to write; a `memoryview` must be contiguous and of single bytes."""

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors for want of descriptors or memory; see `is_shortage`."""

CAN_LEND_LOCKS: Final = sys.platform == "linux"
"""Elsewhere `flock` and record locks exclude each other, also within a process."""

IS_BSD: Final = sys.platform == "darwin"
FLOCK: Final = struct.Struct("qqihh" if IS_BSD else "hhqqi4x")
"""C's `struct flock`: kind, origin, start, length and process id, in the order of the system."""

IOV_MAX: Final = 1024
"""How many buffers one vectored write takes on Linux and macOS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What a name stands for. A file that is renamed to a name brings its own number there."""

    number: int
    """The inode's: of all that is there at one time, no two have the same."""
    size: int
    modified_ms: int
    is_directory: bool
    link_count: int = 1
    """How many names a file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """Bytes of a whole disk, and those that may still be used by us."""

    total: int
    usable: int


class File(Protocol):
    """An open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str:
        """The path it was opened with, or was last renamed to through `renamed`."""

    def renamed(self, path: str) -> None:
        """Sets the path of the object after its file was renamed."""

    def fileno(self) -> int:
        """The descriptor that `os.sendfile` takes."""

    def duplicate(self) -> "File":
        """The same file opened once more, for a reader whom no `close` of this one concerns."""

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pwrite(self, buffer: Buffer, position: int) -> None:
        """Writes all of `buffer`, or raises."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Writes all of `buffers`, one after the other, or raises."""

    def truncate(self, size: int) -> None:
        """Cuts, or extends with zeros. No `map` taken before may reach past the new end."""

    def map(self, size: int) -> memoryview:
        """A read-only view of the first `size` bytes that follows later writes.

        `ValueError` when the file is shorter. The view outlives `close`; release it, and all that
        was sliced from it, before cutting the file below it.
        """

    def sync(self) -> None:
        """Makes content and size durable; the modification time may be lost.

        The file's name is durable only after `sync_directory` of its parent. After an error the
        unsynced bytes are in doubt, whatever a second call says: never make one.
        """

    def close(self) -> None:
        """Gives the file up, unsynced; only a second close does not raise after that."""


class FileSystem(Protocol):
    """What storage may do to a disk."""

    @property
    def open_files(self) -> OpenFiles:
        """The holders of files that were opened here."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        """Opens a regular file; `create` makes it when it is missing (and implies `writable`).

        Anything else of that name (a FIFO, a link, a device) is an `OSError` at once.
        """

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def status(self, path: str) -> FileStatus | None:
        """Size, time and kind, or `None` when there is nothing there.

        A link that leads nowhere is something; `open` refuses it.
        """

    def restrict(self, path: str) -> None:
        """Lets only its owner read and write a file."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Gives a file another modification time; the file's next `sync` keeps it."""

    def space(self, path: str) -> DiskSpace:
        """The size of the disk with a file or directory, and its free space."""

    def canonical(self, path: str) -> str:
        """The one absolute path of a place, without symbolic links, dots and double slashes.

        What is not there keeps its names. Never raises.
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
        """Gives a file a second name, under which there is nothing yet.

        Durable only after `sync_directory` of the parent of `target`. Not every file system can.
        """

    def exchange(self, one: str, other: str) -> None:
        """Has two names, both taken, stand for what the other stood for, atomically.

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

        Do not open that file while the lock is held: POSIX drops a process's record locks with
        the first descriptor of the file that the process closes.
        """

    def lock_holder(self, path: str) -> int | None:
        """The id of the process that holds a lock on a file; 0 for one not seen from here.

        `None` where no process holds it, or only one that it was lent to.
        """


def is_this_process(holder: int) -> bool:
    """Whether a process that `FileSystem.lock_holder` names is the one that asks."""
    return holder == os.getpid()


class FileLock(Protocol):
    def lend(self) -> int | None:
        """A descriptor that keeps the next one out for as long as a process has it that gets it.

        For a child that must outlive this process without any other process at work there. `None`
        where there is no such thing.
        """

    def release(self) -> None:
        """Lets the next one in. A second release does nothing."""


@dataclass(slots=True)
class FileSlice:
    """A run of bytes in a file, which a socket can be given without a copy.

    Not frozen, since one is made for every read.
    """

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)

    def duplicate(self) -> "FileSlice":
        """The same bytes, readable also when the file has been closed or removed since."""
        return FileSlice(self.file.duplicate(), self.position, self.size)


def read_file(file_system: FileSystem, path: str) -> bytes:
    """The whole of a small file; raises `FileNotFoundError`."""
    file = file_system.open(path)
    try:
        return file.pread(file.size(), 0)
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
    """Writes a small file so that a crash leaves the old content or the new, whole.

    Temporary file, fsync, rename, fsync of the directory: Kafka's `Utils.atomicMoveWithFallback`.
    Without the two fsyncs (`durably=False`) a power failure can leave anything under the name: for
    files that show whether they are whole, and that can be rebuilt. Without that of the
    directory the caller makes the rename durable.
    A crash or an error can leave `path.tmp`, which nothing reads: the next call for the same path
    cuts it and uses it again, and the cleanup of the directory at start may remove it. What
    `is_secret` nobody but the owner may read, not even while it is written.
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
    """Writes a file in the place, if need be, of what a crash has left of one."""
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
    """Makes a directory and its parents so that they outlive a power failure."""
    missing = []
    ancestor = path
    while file_system.status(ancestor) is None:
        missing.append(ancestor)
        ancestor = parent_directory(ancestor)
    file_system.make_directory(path)
    for made in missing:
        file_system.sync_directory(parent_directory(made))


def sync_file(file_system: FileSystem, path: str) -> None:
    """Makes the content of a file that nobody need have open durable."""
    file = file_system.open(path, writable=True)
    try:
        file.sync()
    finally:
        file.close()


def is_shortage(error: OSError) -> bool:
    """Whether a call failed because the process or the system has too little to give it.

    Out of descriptors or of memory: nothing was done, the disk is well, and the same call may
    succeed later. Only of calls that name a file, which are those that open, make, rename or remove
    one: after a write or a sync without memory nobody knows what reached the disk.
    """
    return error.errno in SHORTAGES and error.filename is not None


def remove_if_present(file_system: FileSystem, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        file_system.remove(path)


def parent_directory(path: str) -> str:
    return os.path.dirname(path.rstrip("/") or path) or "."


def join(directory: str, *names: str) -> str:
    """As `os.path.join`, for names that are relative; several times as quick, and called often."""
    below = "/".join(names)
    return f"{directory}/{below}" if directory and directory[-1] != "/" else directory + below


def base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


class OsFileSystem:
    """The machine's own files."""

    def __init__(self) -> None:
        self.open_files = OpenFiles()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> "OsFile":
        flags = os.O_RDWR if writable or create else os.O_RDONLY
        return OsFile(path, _open_regular(path, flags | (os.O_CREAT if create else 0)))

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

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

    def restrict(self, path: str) -> None:
        os.chmod(path, 0o600)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)

    def space(self, path: str) -> DiskSpace:
        status = os.statvfs(path)
        return DiskSpace(
            total=status.f_blocks * status.f_frsize, usable=status.f_bavail * status.f_frsize
        )

    def canonical(self, path: str) -> str:
        if "\0" in path:
            return path  # no file has such a name, and the system would not be asked for it
        return "/" + os.path.realpath(path).lstrip("/")  # POSIX lets two slashes stand

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

    def lock(self, path: str) -> "OsFileLock | None":
        with contextlib.suppress(OSError):
            if _identity(os.stat(path)) in _LOCKED_HERE:
                return None
        descriptor = _open_regular(path, os.O_RDWR | os.O_CREAT)
        identity = _identity(os.fstat(descriptor))
        token = [descriptor]
        if _LOCKED_HERE.setdefault(identity, token) is not token:
            # Another thread was faster; closing this descriptor would drop the lock it now holds.
            return None
        try:
            # Java's FileChannel.lock is a POSIX record lock: taking the same kind keeps Kafka out.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if CAN_LEND_LOCKS:
                # The process that held it may have died while its child still works: see `lend`.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        except OSError as error:
            del _LOCKED_HERE[identity]
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return None
            raise
        return OsFileLock(descriptor, identity, token)

    def lock_holder(self, path: str) -> int | None:
        try:
            if _identity(os.stat(path)) in _LOCKED_HERE:
                return os.getpid()
            descriptor = _open_regular(path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        identity = _identity(os.fstat(descriptor))
        token = [descriptor]
        if _LOCKED_HERE.setdefault(identity, token) is not token:
            return os.getpid()  # locked by another thread just now; see `lock`
        try:
            return _record_lock_holder(descriptor)
        finally:
            os.close(descriptor)
            del _LOCKED_HERE[identity]


def _record_lock_holder(descriptor: int) -> int | None:
    """The process that bars a record lock on a file; 0 for one of another pid namespace."""
    wanted = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if IS_BSD else (fcntl.F_WRLCK, 0, 0, 0, 0)
    found = fcntl.fcntl(descriptor, fcntl.F_GETLK, FLOCK.pack(*wanted))
    if IS_BSD:
        _, _, pid, kind, _ = FLOCK.unpack(found)
    else:
        kind, _, _, _, pid = FLOCK.unpack(found)
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return os.lstat(path)


def _open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file.

    Opening a FIFO waits for its other end, a link's bytes belong to a file of another name, and a
    device never ends: none of them is a file that a broker wrote.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise _not_regular(path, "a symbolic link") from error
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV):
            raise _not_regular(path, "a socket or a device") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    # The kernel refuses directories only to writers; here the first `pread` would be too late.
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise _not_regular(path, "a FIFO" if stat.S_ISFIFO(mode) else "a socket or a device")


def _not_regular(path: str, kind: str) -> OSError:
    return OSError(errno.EINVAL, f"it is {kind} where a regular file belongs; move it away", path)


_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SPARE: list[int] = []
"""One descriptor in reserve, taken by the first use."""


def _open_directory(path: str) -> int:
    """Opens a directory to sync it, with the descriptor in reserve when there is no other.

    What is to be synced has been done already: this must not fail for want of a descriptor.
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
        # Without its name: a rename may not be durable, which is no mere shortage any more.
        raise OSError(error.errno, f"{error.strerror}: {path}") from error


def _release_spare() -> None:
    with contextlib.suppress(IndexError):
        os.close(_SPARE.pop())


_LOCKED_HERE: dict[tuple[int, int], list[int]] = {}
"""Device and inode of each file that this process has locked, and the descriptor of its lock.

A record lock does not bar the process that holds it, so the process keeps count itself. A child
does not inherit such locks.
"""


def _give_up_locks() -> None:
    """In a child of a fork: a lock that can be lent would else outlive the parent."""
    for (descriptor,) in _LOCKED_HERE.values():
        os.close(descriptor)
    _LOCKED_HERE.clear()


os.register_at_fork(after_in_child=_give_up_locks)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return (status.st_dev, status.st_ino)


class OsFileLock:
    """Held by the process that took it: in a child that it forked, `release` does nothing."""

    def __init__(self, descriptor: int, identity: tuple[int, int], token: list[int]) -> None:
        self._descriptor = descriptor
        self._identity = identity
        self._token = token

    def lend(self) -> int | None:
        if not CAN_LEND_LOCKS or _LOCKED_HERE.get(self._identity) is not self._token:
            return None
        # A record lock is the process's own; this one belongs to all who have the descriptor.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._descriptor

    def release(self) -> None:
        if _LOCKED_HERE.get(self._identity) is not self._token:
            return
        if CAN_LEND_LOCKS:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a child may have it too
        # In this order: closing would drop the lock of a thread that was let in before it.
        os.close(self._descriptor)
        del _LOCKED_HERE[self._identity]


class OsFile:
    """A descriptor with positional reads and writes that never stop half way.

    The last reference closes it: an answer that quotes a file keeps that open until it is sent.
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
        if position == -1:  # pwritev2, which `os.pwritev` calls, takes it for the current offset.
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
        """Continues where the kernel stopped early (a signal, a nearly full disk, over 2 GiB)."""
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
        if size > self.size():  # Also raises when closed, where mmap would hand out empty memory.
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
            # Earlier versions keep a second descriptor open for as long as the map lives.
            return memoryview(
                mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False)
            )
        return memoryview(mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ))

    def sync(self) -> None:
        if self._descriptor < 0:  # `os.fdatasync` would make a ValueError of it.
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
        if hasattr(self, "_descriptor"):  # an interrupt may come before it is there
            self.close()


_sync_content = getattr(os, "fdatasync", os.fsync)
"""fdatasync keeps the size too, and saves a journal commit where only the time has changed."""
