"""A table in a directory of this machine, or of a shared disk.

A crash leaves a small file with its old or its new content, and perhaps a `.tmp` file, which the
next write of the same name reuses. A killed task leaves a file with a dot before its name, which
readers ignore.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ottla.base.errors import UserError
from ottla.base.files import (
    FileSystem,
    OsFileSystem,
    join,
    parent_directory,
    read_file,
    remove_if_present,
    replace_file,
    sync_file,
)
from ottla.tables.stores.store import StoredFile, full_address

LOCK = "_ottla/lock"


class LocalStore:
    """Implements `TableStore`."""

    is_shared = False

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        self.address = full_address(path)
        self.file_system = file_system or OsFileSystem()

    def check_place(self) -> None:
        """Raises `UserError` if a file is in place of the directory, or of one above it."""
        place = self.address
        while (status := self.file_system.status(place)) is None:
            if (above := parent_directory(place)) == place:
                return
            place = above
        if not status.is_directory:
            raise UserError(f"{place} is a file, and a table is a directory; name another path")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Holds an exclusive lock, which ends with this process."""
        self.make_directories([parent_directory(LOCK)])
        lock = self.file_system.lock(self._at(LOCK))
        if lock is None:
            raise UserError(
                f"{self.address}: another load into this table is running; wait until it ends"
            )
        try:
            yield
        finally:
            lock.release()

    def make_directories(self, directories: Sequence[str]) -> None:
        for one in directories:
            self._make_directory(self._at(one))

    def names(self, directory: str) -> list[str]:
        path = self._at(directory)
        status = self.file_system.status(path)
        return [] if status is None else self.file_system.list(path)

    def find(self, directory: str) -> list[StoredFile]:
        return [
            StoredFile(path=path, size=status.size)
            for path in self._below(directory)
            if (status := self.file_system.status(self._at(path)))
        ]

    def has(self, path: str) -> bool:
        return self.file_system.status(self._at(path)) is not None

    def read(self, path: str) -> bytes:
        return read_file(self.file_system, self._at(path))

    def replace(self, path: str, content: bytes, *, durably: bool = True) -> None:
        replace_file(self.file_system, self._at(path), content, durably=durably)

    def remove(self, path: str) -> None:
        remove_if_present(self.file_system, self._at(path))

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            sync_file(self.file_system, self._at(path))
        for directory in sorted(_directories(paths)):
            self.file_system.sync_directory(self._at(directory))

    def arrow(self) -> Any:
        import pyarrow.fs

        return pyarrow.fs.LocalFileSystem()

    def arrow_path(self, path: str) -> str:
        return self._at(path)

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        directory, name = os.path.split(self._at(path))
        os.makedirs(directory, exist_ok=True)
        hidden = join(directory, f".{name}")
        try:
            with open(hidden, "wb") as file:
                yield file
            # `Transaction.publish` syncs all files before a log names one.
            os.replace(hidden, join(directory, name))
        except BaseException:
            remove_if_present(self.file_system, hidden)
            raise

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

    def _make_directory(self, path: str) -> None:
        """Creates a directory and missing parents durably."""
        is_missing = self.file_system.status(path) is None
        if is_missing:
            self._make_directory(parent_directory(path))
            self.file_system.make_directory(path)
        if is_missing or path.startswith(self.address):
            # Even if it exists: the process that created it may have been killed before it synced
            # this.
            self.file_system.sync_directory(parent_directory(path))


def _directories(paths: Sequence[str]) -> set[str]:
    """All directories between the table and its files, relative to it, including itself (`""`)."""
    found = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found
