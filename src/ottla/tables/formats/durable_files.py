"""Syncs the files that pyiceberg writes to a disk of this machine.

pyiceberg does not sync files, and its catalog refers to them at once. So each file and its
directory are synced when it is closed, and a catalog never refers to a file that a power failure
removed.
"""

import io
import os
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class DurableFileIO(PyArrowFileIO):
    """The class that pyiceberg loads by its import path (`py-io-impl`)."""

    def new_output(self, location: str) -> Any:
        path = local_path(location)
        return super().new_output(location) if path is None else _SyncedFile(location, path)


def local_path(location: str) -> str | None:
    """The local path of a location; `None` for one in an object store."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return location if not parts.scheme else location.removeprefix("file:").removeprefix("//")


class _SyncedFile(OutputFile):
    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return os.path.getsize(self._path)

    def exists(self) -> bool:
        return os.path.exists(self._path)

    def to_input_file(self) -> PyArrowFile:
        return PyArrowFileIO().new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        return _SyncedStream(self._path, is_new=not overwrite)


class _SyncedStream(io.BufferedWriter):
    def __init__(self, path: str, *, is_new: bool) -> None:
        super().__init__(io.FileIO(path, "xb" if is_new else "wb"))
        self._directory = os.path.dirname(path)

    def close(self) -> None:
        if self.closed:
            return
        self.flush()
        os.fsync(self.fileno())
        super().close()
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
