"""A file system that passes every call on and records those that change anything."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from enum import Enum
from typing import Protocol, TypeVar, runtime_checkable

from ottla.base.files import Buffer, DiskSpace, File, FileLock, FileStatus, FileSystem, Numbers
from ottla.base.open_files import OpenFiles
from ottla.base.values import dataclass

T = TypeVar("T")


class IoKind(Enum):
    """A call that changes the contents of a disk, or makes a change durable.

    >>> IoKind.PWRITE.value
    'pwrite'
    """

    CREATE = "create"
    PWRITE = "pwrite"
    PWRITEV = "pwritev"
    TRUNCATE = "truncate"
    SET_MODIFIED = "set_modified_ms"
    SYNC = "sync"
    MAKE_DIRECTORY = "make_directory"
    RENAME = "rename"
    LINK = "link"
    EXCHANGE = "exchange"
    REMOVE = "remove"
    REMOVE_DIRECTORY = "remove_directory"
    SYNC_DIRECTORY = "sync_directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class IoCall:
    """One call; its index in `RecordingFileSystem.calls` is its number.

    >>> disk = RecordingFileSystem(FakeFileSystem())
    >>> disk.make_directory("data")
    >>> disk.calls[0].kind, disk.calls[0].path
    (<IoKind.MAKE_DIRECTORY: 'make_directory'>, 'data')
    """

    kind: IoKind
    path: str
    target: str | None = None
    """The target of a rename, the second name of a link, or the other name of an exchange."""
    position: int = 0
    size: int = 0
    """The bytes written, or the size to which a file is cut or extended."""


@runtime_checkable
class ForgetfulFile(Protocol):
    """A file on which a test can make a sync fail."""

    def fail_sync(self) -> None: ...


class RecordingFileSystem:
    """Wraps a `base.files.FileSystem`. An `open` or `lock` is recorded if it creates a file.

    >>> disk = RecordingFileSystem(FakeFileSystem())
    >>> disk.make_directory("data")
    >>> disk.rename("data", "old")
    >>> [call.kind.value for call in disk.calls]
    ['make_directory', 'rename']
    """

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self.calls: list[IoCall] = []

    @property
    def open_files(self) -> OpenFiles:
        return self.inner.open_files

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        """Carries out and records a change; `fall_short` would do half of it.

        >>> disk = RecordingFileSystem(FakeFileSystem())
        >>> disk.perform(IoCall(kind=IoKind.SYNC, path="notes"), lambda: "done")
        'done'
        """
        self.calls.append(call)
        return deed()

    def check_alive(self) -> None:
        """Called before each call that changes nothing; never raises here.

        >>> RecordingFileSystem(FakeFileSystem()).check_alive()
        """

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> "RecordingFile":
        self.check_alive()

        def deed() -> File:
            return self.inner.open(path, writable=writable, create=create)

        return RecordingFile(self, self._creating(path, deed) if create else deed())

    def list(self, directory: str) -> list[str]:
        self.check_alive()
        return self.inner.list(directory)

    def names(self, directory: str) -> Sequence[str]:
        self.check_alive()
        return self.inner.names(directory)

    def list_others(self, directory: str) -> Sequence[str]:
        self.check_alive()
        return self.inner.list_others(directory)

    def some_files(self, directory: str, max_count: int) -> Sequence[str]:
        self.check_alive()
        return self.inner.some_files(directory, max_count)

    def boot_id(self) -> str:
        return self.inner.boot_id()

    def status(self, path: str) -> FileStatus | None:
        self.check_alive()
        return self.inner.status(path)

    def sizes(self, directory: str, names: Iterable[str]) -> Sequence[int | None]:
        self.check_alive()
        return self.inner.sizes(directory, names)

    def read_start(self, path: str, size: int) -> bytes:
        with closing(self.open(path)) as file:
            return file.pread(size, 0)

    def restrict(self, path: str) -> None:
        self.check_alive()
        self.inner.restrict(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        call = IoCall(kind=IoKind.SET_MODIFIED, path=path)
        self.perform(call, lambda: self.inner.set_modified_ms(path, modified_ms))

    def space(self, path: str) -> DiskSpace:
        self.check_alive()
        return self.inner.space(path)

    def canonical(self, path: str) -> str:
        return self.inner.canonical(path)

    def make_directory(self, path: str) -> None:
        call = IoCall(kind=IoKind.MAKE_DIRECTORY, path=path)
        self.perform(call, lambda: self.inner.make_directory(path))

    def rename(self, source: str, target: str) -> None:
        call = IoCall(kind=IoKind.RENAME, path=source, target=target)
        self.perform(call, lambda: self.inner.rename(source, target))

    def link(self, source: str, target: str) -> None:
        call = IoCall(kind=IoKind.LINK, path=source, target=target)
        self.perform(call, lambda: self.inner.link(source, target))

    def exchange(self, one: str, other: str) -> None:
        call = IoCall(kind=IoKind.EXCHANGE, path=one, target=other)
        self.perform(call, lambda: self.inner.exchange(one, other))

    def remove(self, path: str) -> None:
        self.perform(IoCall(kind=IoKind.REMOVE, path=path), lambda: self.inner.remove(path))

    def remove_directory(self, path: str) -> None:
        call = IoCall(kind=IoKind.REMOVE_DIRECTORY, path=path)
        self.perform(call, lambda: self.inner.remove_directory(path))

    def sync_directory(self, path: str) -> None:
        call = IoCall(kind=IoKind.SYNC_DIRECTORY, path=path)
        self.perform(call, lambda: self.inner.sync_directory(path))

    def lock(self, path: str) -> FileLock | None:
        self.check_alive()
        return self._creating(path, lambda: self.inner.lock(path))

    def lock_holder(self, path: str) -> int | None:
        self.check_alive()
        return self.inner.lock_holder(path)

    def _creating(self, path: str, deed: Callable[[], T]) -> T:
        if self.inner.status(path) is not None:
            return deed()
        return self.perform(IoCall(kind=IoKind.CREATE, path=path), deed)


class RecordingFile:
    """Wraps a `base.files.File`."""

    __slots__ = ("_inner", "_system")

    def __init__(self, system: RecordingFileSystem, inner: File) -> None:
        self._system = system
        self._inner = inner

    @property
    def path(self) -> str:
        return self._inner.path

    def renamed(self, path: str) -> None:
        self._inner.renamed(path)

    def fileno(self) -> int:
        return self._alive().fileno()

    def duplicate(self) -> "RecordingFile":
        return RecordingFile(self._system, self._alive().duplicate())

    def size(self) -> int:
        return self._alive().size()

    def pread(self, size: int, position: int) -> bytes:
        return self._alive().pread(size, position)

    def map(self, size: int) -> memoryview:
        return self._alive().map(size)

    def map_numbers(self, count: int) -> Numbers:
        return self._alive().map_numbers(count)

    def pwrite(self, buffer: Buffer, position: int) -> None:
        inner, size = self._inner, len(buffer)
        self._system.perform(
            IoCall(kind=IoKind.PWRITE, path=self.path, position=position, size=size),
            lambda: inner.pwrite(buffer, position),
            lambda: inner.pwrite(memoryview(buffer)[: size // 2], position),
        )

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        inner, size = self._inner, sum(map(len, buffers))
        self._system.perform(
            IoCall(kind=IoKind.PWRITEV, path=self.path, position=position, size=size),
            lambda: inner.pwritev(buffers, position),
            lambda: inner.pwrite(b"".join(buffers)[: size // 2], position),
        )

    def truncate(self, size: int) -> None:
        call = IoCall(kind=IoKind.TRUNCATE, path=self.path, size=size)
        self._system.perform(call, lambda: self._inner.truncate(size))

    def sync(self) -> None:
        call = IoCall(kind=IoKind.SYNC, path=self.path)
        self._system.perform(call, self._inner.sync, self.fail_sync)

    def fail_sync(self) -> None:
        if isinstance(self._inner, ForgetfulFile):
            self._inner.fail_sync()

    def close(self) -> None:
        self._inner.close()

    def _alive(self) -> File:
        self._system.check_alive()
        return self._inner
