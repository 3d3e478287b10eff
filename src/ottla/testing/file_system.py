"""A file system in memory that models exactly what survives a power failure.

What it models:

- A write is durable after `sync` of its file; until then a crash may keep it, lose it, tear it at
  any byte, omit sectors, or keep only the file's new size with zeros or arbitrary bytes. Synced
  data that was not overwritten stays.
- A new name, a rename and a removal are durable after `sync_directory` of the directory; until
  then a crash may undo them, the last ones first. A synced file whose name was not synced may be
  lost, and so may everything in a directory whose own name was not synced.
- A rename is atomic. Between two directories it is durable when either of them is synced.
- A cut or a new size is journalled: if it is lost, later writes are lost too.
- After a failed sync the kernel considers the unsynced bytes written: they can be read, no later
  sync makes them durable, and a crash may lose them.
- A kill (`CrashMode.KEEP`) loses nothing, and syncs nothing.

What it does not model: owners and permissions, links, sparse files, disks that lie about flushing
or lose durable data.

Similar tools: LevelDB's fault injection environment drops unsynced data, including directory
entries, and reopens the database; kfake, the broker of franz-go's tests, does the same with a small
interface; TigerBeetle's simulated storage tears sectors by seed.
"""

import errno
import io
import os
import posixpath
from collections.abc import Hashable, Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from struct import Struct

from ottla.base.clock import Clock
from ottla.base.files import Buffer, DiskSpace, FileStatus, Numbers, join
from ottla.base.open_files import OpenFiles
from ottla.testing.clock import FakeClock
from ottla.testing.crash import CrashMode, crashed_disk
from ottla.testing.disk import DirectoryNode, Disk, Edit, FileNode, Node, Resize, Write

MAX_NAME_SIZE = 255
"""The maximum size of a name in bytes, as in all common file systems."""

DISK_SIZE = 1 << 40

_NUMBER = Struct("=q")


class FakeFileSystem:
    """A `base.files.FileSystem`. It starts with an empty root, which is both `.` and `/`.

    >>> disk = FakeFileSystem()
    >>> file = disk.open("notes", create=True, writable=True)
    >>> file.pwrite(b"tea", 0)
    >>> after = disk.snapshot().crash(CrashMode.STRICT)  # Nothing was synced.
    >>> disk.list("."), after.list(".")
    (['notes'], [])
    >>> disk.state() == after.state()
    False
    >>> disk.halve_last_write()
    >>> disk.status("notes").size
    1
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or FakeClock()
        self._disk = Disk(self._clock.now_ms())
        self._locked: set[int] = set()
        self.open_files = OpenFiles()
        self._is_crashed = False
        self._boot = 1

    def crash(self, mode: CrashMode = CrashMode.RANDOM, seed: int = 0) -> "FakeFileSystem":
        """The file system that the next process finds; deterministic for the same history and seed.

        This file system and its open files become unusable, but `crash` can be called again with
        another mode or seed.
        """
        self._is_crashed = True
        after = FakeFileSystem(self._clock)
        after._disk = crashed_disk(self._disk, mode, seed)
        after._boot = self._boot + (mode is not CrashMode.KEEP)
        return after

    def snapshot(self) -> "FakeFileSystem":
        """A file system that crashes as this one would now; this one stays usable."""
        copied = FakeFileSystem(self._clock)
        copied._disk = self._disk.copy()
        copied._boot = self._boot
        return copied

    def halve_last_write(self) -> None:
        """Undoes the second half of the last call, which wrote bytes."""
        assert self._disk.last_written is not None
        self._disk.last_written.halve_last_write()

    def state(self) -> Hashable:
        """A value that is equal for file systems that no process can distinguish, now or after a
        crash.
        """
        return self._disk.state()

    def contents(self) -> Hashable:
        """A value that is equal for file systems with the same contents, before a crash.

        >>> disk = FakeFileSystem()
        >>> disk.make_directory("data")
        >>> before = disk.contents()
        >>> disk.sync_directory(".")
        >>> disk.contents() == before
        True
        """
        return self._disk.contents()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> "FakeFile":
        node = self._node(path)
        if node is None and create:
            node = self._create_file(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        return FakeFile(self, node, path, is_writable=writable or create)

    def list(self, directory: str) -> list[str]:
        return sorted(self._directory(directory).entries)

    def names(self, directory: str) -> Sequence[str]:
        return self.list(directory)

    def list_others(self, directory: str) -> Sequence[str]:
        entries = self._directory(directory).entries
        return sorted(name for name, one in entries.items() if isinstance(one, DirectoryNode))

    def some_files(self, directory: str, max_count: int) -> Sequence[str]:
        others = {*self.list_others(directory)}
        return [one for one in self.list(directory) if one not in others][:max_count]

    def boot_id(self) -> str:
        """Another one after each power failure, and the same after a kill."""
        return f"boot {self._boot}"

    def sizes(self, directory: str, names: Iterable[str]) -> Sequence[int | None]:
        found = (self.status(join(directory, name)) for name in names)
        return [None if one is None else one.size for one in found]

    def read_start(self, path: str, size: int) -> bytes:
        with closing(self.open(path)) as file:
            return file.pread(size, 0)

    def status(self, path: str) -> FileStatus | None:
        try:
            node = self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if node is None:
            return None
        return FileStatus(
            number=node.number,
            size=len(node.content) if isinstance(node, FileNode) else 0,
            modified_ms=node.modified_ms,
            is_directory=isinstance(node, DirectoryNode),
            link_count=node.link_count if isinstance(node, FileNode) else 1,
        )

    def restrict(self, path: str) -> None:
        """Has no effect: there are no other users."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        node.modified_ms = modified_ms

    def space(self, path: str) -> DiskSpace:
        """A disk of 1 TiB that contains only file contents."""
        if self._node(path) is None:
            raise _error(errno.ENOENT, path)
        used = _content_size(self._disk.root)
        return DiskSpace(total=DISK_SIZE, usable=max(0, DISK_SIZE - used))

    def canonical(self, path: str) -> str:
        return "/" + posixpath.normpath("/" + path).lstrip("/")

    def make_directory(self, path: str) -> None:
        steps = self._steps(path)
        for depth in range(len(steps)):
            made = "/".join(steps[: depth + 1])
            node = self._node(made)
            if node is None:
                new = DirectoryNode(self._disk.next_number(), self.now_ms())
                self._edit(self._entry(made, new))
            elif isinstance(node, FileNode):
                is_last = depth == len(steps) - 1
                raise _error(errno.EEXIST if is_last else errno.ENOTDIR, path)

    def rename(self, source: str, target: str) -> None:
        # In Linux's order, so that a call with two faults raises the same error here as there.
        old, new = self._entry(source, None), self._entry(target, None)
        node = old.directory.entries.get(old.name)
        replaced = new.directory.entries.get(new.name)
        if node is None:
            raise _error(errno.ENOENT, source)
        if node is replaced:
            return
        self._check_replacement(source, node, target, replaced)
        self._edit(old, Edit(new.directory, new.name, node))
        if isinstance(replaced, FileNode):
            replaced.link_count -= 1

    def link(self, source: str, target: str) -> None:
        node, new = self._node(source), self._entry(target, None)
        if node is None:
            raise _error(errno.ENOENT, source)
        if new.name in new.directory.entries:
            raise _error(errno.EEXIST, target)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EPERM, source)
        self._edit(Edit(new.directory, new.name, node))
        node.link_count += 1

    def exchange(self, one: str, other: str) -> None:
        first, second = self._entry(one, None), self._entry(other, None)
        nodes = [edit.directory.entries.get(edit.name) for edit in (first, second)]
        if None in nodes:
            raise _error(errno.ENOENT, one)
        above, below = sorted((self._steps(one), self._steps(other)), key=len)
        if below[: len(above)] == above:
            raise _error(errno.EINVAL, one)
        self._edit(
            Edit(first.directory, first.name, nodes[1]),
            Edit(second.directory, second.name, nodes[0]),
        )

    def _check_replacement(
        self, source: str, node: Node, target: str, replaced: Node | None
    ) -> None:
        old, new = self._steps(source), self._steps(target)
        if new[: len(old)] == old:
            raise _error(errno.EINVAL, target)
        if old[: len(new)] == new:
            raise _error(errno.ENOTEMPTY, target)
        if isinstance(node, DirectoryNode) and isinstance(replaced, FileNode):
            raise _error(errno.ENOTDIR, target)
        if isinstance(replaced, DirectoryNode):
            if isinstance(node, FileNode):
                raise _error(errno.EISDIR, target)
            if replaced.entries:
                raise _error(errno.ENOTEMPTY, target)

    def remove(self, path: str) -> None:
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        self._edit(self._entry(path, None))
        node.link_count -= 1

    def remove_directory(self, path: str) -> None:
        if self._directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        self._edit(self._entry(path, None))

    def sync_directory(self, path: str) -> None:
        self._disk.sync(self._directory(path))

    def lock(self, path: str) -> "FakeFileLock | None":
        node = self.open(path, create=True).node
        if node.number in self._locked:
            return None
        self._locked.add(node.number)
        return FakeFileLock(self._locked, node.number)

    def lock_holder(self, path: str) -> int | None:
        node = self._node(path)
        return 0 if node is not None and node.number in self._locked else None

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _note_write(self, node: FileNode) -> None:
        self._disk.last_written = node

    def _check_alive(self) -> None:
        assert not self._is_crashed, "this file system has crashed: use the one crash() returned"

    def _steps(self, path: str) -> tuple[str, ...]:
        self._check_alive()
        return _steps_of(path)

    def _node(self, path: str) -> Node | None:
        node: Node | None = self._disk.root
        for step in self._steps(path):
            if node is None:
                return None
            if isinstance(node, FileNode):
                raise _error(errno.ENOTDIR, path)
            node = node.entries.get(step)
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, FileNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _entry(self, path: str, node: Node | None) -> Edit:
        *above, name = self._steps(path) or ("",)
        if not name:
            raise _error(errno.EBUSY, path)  # the root cannot be renamed or removed
        return Edit(self._directory("/".join(above) or "/"), name, node)

    def _edit(self, *edits: Edit) -> None:
        self._disk.change(*edits, now_ms=self.now_ms())

    def _create_file(self, path: str) -> FileNode:
        node = FileNode(self._disk.next_number(), self.now_ms())
        self._edit(self._entry(path, node))
        return node


class FakeFile:
    """A `base.files.File` on a node of a fake disk."""

    __slots__ = ("_file_system", "_is_open", "_is_writable", "_path", "node")

    def __init__(
        self, file_system: FakeFileSystem, node: FileNode, path: str, *, is_writable: bool
    ) -> None:
        self._file_system = file_system
        self._path = path
        self._is_writable = is_writable
        self._is_open = True
        self.node = node

    @property
    def path(self) -> str:
        return self._path

    def renamed(self, path: str) -> None:
        self._path = path

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self._path} is in memory, not backed by a descriptor")

    def duplicate(self) -> "FakeFile":
        return FakeFile(
            self._file_system, self._readable(), self._path, is_writable=self._is_writable
        )

    def size(self) -> int:
        return len(self._readable().content)

    def pread(self, size: int, position: int) -> bytes:
        node = self._readable()
        if size < 0 or position < 0:
            raise _error(errno.EINVAL, self._path)
        return bytes(memoryview(node.content)[position : position + size])

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self.pwritev([buffer], position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """One write to the disk for all buffers, which a crash can tear anywhere."""
        node = self._writable(errno.EBADF)
        if position < 0:
            raise _error(errno.EINVAL, self._path)
        data = b"".join(buffers)
        if data:
            node.change(Write(position, data), self._file_system.now_ms())
            self._file_system._note_write(node)

    def truncate(self, size: int) -> None:
        node = self._writable(errno.EINVAL)
        if size < 0:
            raise _error(errno.EINVAL, self._path)
        node.change(Resize(size), self._file_system.now_ms())

    def map(self, size: int) -> memoryview:
        node = self._readable()
        if size > len(node.content):
            raise ValueError(f"a map of {size} bytes is longer than {self._path}")
        return node.maps.take(node.content, size)

    def map_numbers(self, count: int) -> Numbers:
        if count * 8 > len(self._writable(errno.EACCES).content):
            raise ValueError(f"a map of {count} numbers is longer than {self._path}")
        return FakeNumbers(self.node)

    def sync(self) -> None:
        self._readable().sync()

    def fail_sync(self) -> None:
        """Marks unsynced changes as doubtful; the caller raises the error."""
        self._readable().fail_sync()

    def close(self) -> None:
        self._is_open = False

    def _readable(self) -> FileNode:
        self._file_system._check_alive()
        if not self._is_open:
            raise _error(errno.EBADF, self._path)
        return self.node

    def _writable(self, refusal: int) -> FileNode:
        node = self._readable()
        if not self._is_writable:
            raise _error(refusal, self._path)
        return node


class FakeNumbers:
    """Numbers in a file. A power failure loses their changes, so none is recorded."""

    __slots__ = ("_node",)

    def __init__(self, node: FileNode) -> None:
        self._node = node

    def __getitem__(self, index: int, /) -> int:
        number: int = _NUMBER.unpack_from(self._node.content, index * _NUMBER.size)[0]
        return number

    def __setitem__(self, index: int, value: int, /) -> None:
        _NUMBER.pack_into(self._node.content, index * _NUMBER.size, value)


class FakeFileLock:
    def __init__(self, locked: set[int], number: int) -> None:
        self._locked = locked
        self._number: int | None = number

    def lend(self) -> int | None:
        return None

    def release(self) -> None:
        if self._number is not None:
            self._locked.discard(self._number)
            self._number = None


@lru_cache(maxsize=1024)
def _steps_of(path: str) -> tuple[str, ...]:
    if not path:
        raise _error(errno.ENOENT, path)
    names = posixpath.normpath(path).split("/")
    steps = tuple(name for name in names if name not in ("", ".", ".."))
    if any(len(os.fsencode(one)) > MAX_NAME_SIZE for one in steps):
        raise _error(errno.ENAMETOOLONG, path)
    return steps


def _error(code: int, path: str) -> OSError:
    """The subclass of `OSError` for the code, with the system's text."""
    return OSError(code, os.strerror(code), path)


def _content_size(node: Node) -> int:
    if isinstance(node, FileNode):
        return len(node.content)
    return sum(map(_content_size, node.entries.values()))
