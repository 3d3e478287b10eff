"""A real directory, in which a library writes, and beside it a disk that forgets what is unsynced.

What goes through `OnBoth` is done to both. What the library has written meanwhile is found before
each call, and written to the fake disk without a sync, as the library wrote it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.base.files import FileSystem, OsFileSystem, join


class OnBoth:
    """Implements `FileSystem` for one directory of both."""

    def __init__(self, root: Path, fake: FileSystem) -> None:
        self._root = root
        self._real = OsFileSystem()
        self._fake = fake

    def __getattr__(self, name: str) -> Any:
        self._follow()

        def call(*arguments: Any, **named: Any) -> Any:
            if name in ("list", "status", "lock"):
                return getattr(self._real, name)(*arguments, **named)
            found = getattr(self._real, name)(*arguments, **named)
            other = getattr(self._fake, name)(*arguments, **named)
            return _Both((found, other)) if name == "open" else found

        return call

    def _follow(self) -> None:
        for path in sorted(self._root.rglob("*")):
            name = str(path)
            if path.name == "lock" or ".tmp" in path.name:
                continue
            if self._fake.status(name) is None:
                self._make(path, name)

    def _make(self, path: Path, name: str) -> None:
        if path.is_dir():
            self._fake.make_directory(name)
            return
        file = self._fake.open(name, create=True)
        file.pwrite(path.read_bytes(), 0)
        file.close()


class _Both:
    """One file of each."""

    def __init__(self, files: Sequence[Any]) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            found = [getattr(one, name)(*arguments) for one in self._files]
            return found.pop(0)

        return call


def put_down(file_system: FileSystem, directory: str, target: Path) -> None:
    """Makes a real directory of what is left on the fake disk."""
    target.mkdir(parents=True)
    for name in file_system.list(directory):
        path = join(directory, name)
        status = file_system.status(path)
        assert status is not None
        if status.is_directory:
            put_down(file_system, path, target / name)
            continue
        file = file_system.open(path)
        (target / name).write_bytes(file.pread(status.size, 0))
        file.close()
