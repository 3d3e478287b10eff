"""A table in a directory of this machine, or of a shared disk.

A killed task leaves a file with a dot before its name, which readers ignore.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ottla.base.errors import UserError
from ottla.base.files import (
    join,
    parent_directory,
    remove_if_present,
    sync_file,
    write_file,
)
from ottla.objects.directory_store import DirectoryStore

LOCK = "_ottla/lock"
STAGED = ".ottla-new.tmp"


class LocalStore(DirectoryStore):
    """Implements `TableStore`."""

    is_shared = False

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

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            sync_file(self.file_system, self._at(path))
        for directory in sorted(_directories(paths)):
            self.file_system.sync_directory(self._at(directory))

    def put_new(self, path: str, content: bytes) -> bool:
        """Creates a file durably and atomically; `False` if there is one of that name.

        Only for the writer that holds the lock: what a killed one left of it is overwritten.
        """
        place = self._at(path)
        staged = join(parent_directory(place), STAGED)
        write_file(self.file_system, staged, [content])
        try:
            self.file_system.link(staged, place)
        except FileExistsError:
            return False
        finally:
            self.file_system.remove(staged)
        self.file_system.sync_directory(parent_directory(place))
        return True

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
