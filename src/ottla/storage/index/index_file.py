"""The common part of all index files: a path that may change, and a file opened on demand.

An index belongs to one segment, has its base offset, and opens its file on first use. Kafka's
counterpart: `LazyIndex`.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import File, FileSystem, remove_if_present


class IndexFile:
    __slots__ = ("_file", "_file_system", "_path", "_writable", "base_offset")

    def __init__(
        self, file_system: FileSystem, path: str, base_offset: int, *, writable: bool
    ) -> None:
        self._file_system = file_system
        self._path = path
        self._writable = writable
        self.base_offset = base_offset
        self._file: File | None = None

    @property
    def path(self) -> str:
        return self._path

    @property
    def is_open(self) -> bool:
        """Whether the first use has happened."""
        return self._file is not None

    def rename(self, path: str) -> None:
        """Renames the file if it exists; the caller makes that durable (`sync_directory`)."""
        if self._file is not None or self._file_system.status(self._path) is not None:
            self._file_system.rename(self._path, path)
        self.renamed(path)

    def renamed(self, path: str) -> None:
        """Records that the file, or a directory above it, was renamed."""
        self._path = path
        if self._file is not None:
            self._file.renamed(path)

    def delete(self) -> None:
        self.abandon()
        remove_if_present(self._file_system, self._path)

    def abandon(self) -> None:
        """Closes the file without changing it: its directory is offline, or it is deleted next."""
        raise NotImplementedError

    def _corruption(self, position: int, reason: str) -> CorruptionError:
        return CorruptionError(self._path, position, reason)
