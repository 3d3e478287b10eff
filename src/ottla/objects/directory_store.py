"""Objects that are files below a directory of this machine, or of a shared disk.

A crash leaves an object with its old or its new content, and perhaps a `.tmp` file, which the next
`put` of the same name reuses, and `delete_all` removes.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from ottla.base.files import (
    Buffer,
    FileSystem,
    OsFileSystem,
    join,
    make_durable_directory,
    parent_directory,
    read_file,
    remove_if_present,
    replace_file,
    write_file,
)
from ottla.objects.addresses import full_address
from ottla.objects.store import StoredObject

TEMPORARY = ".tmp"


class DirectoryStore:
    """Implements `ObjectStore`."""

    read_ahead = 0

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        self.address = full_address(path)
        self.file_system = file_system or OsFileSystem()
        self._durable: set[str] = set()
        """The directories of objects that a power failure does not remove."""

    def names(self, directory: str) -> list[str]:
        path = self._at(directory)
        status = self.file_system.status(path)
        return [] if status is None else self.file_system.list(path)

    def folders(self, directory: str) -> list[str]:
        found = []
        for name in self.names(directory):
            status = self.file_system.status(join(self._at(directory), name))
            if status is not None and status.is_directory:
                found.append(name)
        return found

    def find(self, directory: str) -> list[StoredObject]:
        return [
            StoredObject(path=path, size=status.size)
            for path in self._below(directory)
            if (status := self.file_system.status(self._at(path)))
        ]

    def has(self, path: str) -> bool:
        return self.file_system.status(self._at(path)) is not None

    def size(self, path: str) -> int:
        status = self.file_system.status(self._at(path))
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._at(path))
        return status.size

    def read(self, path: str) -> bytes:
        return read_file(self.file_system, self._at(path))

    def get(self, path: str, position: int, size: int) -> bytes:
        file = self.file_system.open(self._at(path))
        try:
            return file.pread(size, position)
        finally:
            file.close()

    def put(self, path: str, content: bytes, *, durably: bool = True) -> None:
        place = self._at(path)
        if self.file_system.status(directory := parent_directory(place)) is None:
            make_durable_directory(self.file_system, directory)
        replace_file(self.file_system, place, content, durably=durably)

    def put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        place = self._at(path)
        directory = parent_directory(place)
        if directory not in self._durable:
            self._make_durable(directory)
        temporary = place + TEMPORARY
        try:
            write_file(self.file_system, temporary, parts)
            self.file_system.rename(temporary, place)
            self.file_system.sync_directory(directory)
        except BaseException:
            with suppress(OSError):  # A disk that is full, or broken, may refuse this too.
                remove_if_present(self.file_system, temporary)
            raise

    def delete(self, path: str) -> None:
        remove_if_present(self.file_system, self._at(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        directories = set()
        for place in map(self._at, paths):
            directory = parent_directory(place)
            if self.file_system.status(directory) is not None:
                remove_if_present(self.file_system, place)
                remove_if_present(self.file_system, place + TEMPORARY)
                directories.add(directory)
        for directory in sorted(directories):
            self.file_system.sync_directory(directory)

    def _make_durable(self, directory: str) -> None:
        """Creates a directory below the store's; a killed process may have created it before, and
        not have synced the one above.
        """
        make_durable_directory(self.file_system, directory)
        above = directory
        while len(above) > len(self.address):
            above = parent_directory(above)
            self.file_system.sync_directory(above)
        with suppress(PermissionError):  # The store's own is made by whoever set it up.
            self.file_system.sync_directory(parent_directory(self.address))
        self._durable.add(directory)

    def _at(self, path: str) -> str:
        return join(self.address, path) if path else self.address

    def _below(self, directory: str) -> Iterator[str]:
        for name in self.names(directory):
            path = join(directory, name)
            status = self.file_system.status(self._at(path))
            if status is not None and status.is_directory:
                yield from self._below(path)
            elif status is not None:
                yield path
