"""A table in an object store: S3 and compatible ones, Google Cloud Storage, Azure.

Uses `deltalake`, which also writes the table's log: one package, and one way to configure
credentials. Objects are written atomically, so a crash leaves objects that no log names, and
partial uploads, which are not listed. Objects written here have either a unique name, or are ledger
entries, which two writers write with the same content; the log's conditional puts decide which
commit succeeds.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.tables.store import StoredFile

STORAGE_OPTIONS = {"allow_http": "true"}
"""Allows endpoints given as `http://`; all others use TLS."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


class ObjectStore:
    """Implements `TableStore`. Credentials are configured as for `deltalake`."""

    is_shared = True

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        with needed_for("a table in an object store"):
            import pyarrow.fs
            from deltalake.exceptions import DeltaError
            from deltalake.fs import DeltaStorageHandler
        try:
            handler = DeltaStorageHandler(self.address, STORAGE_OPTIONS)
        except (DeltaError, OSError) as error:
            if "Unknown scheme" in str(error):
                raise UserError(
                    f"{address}: a table lies in a directory, given by its path, or in an object "
                    f"store, such as s3://, gs:// or abfss://"
                ) from error
            raise UserError(f"{address}: {one_line(error)}") from error
        self._store = pyarrow.fs.PyFileSystem(handler)

    def claimed(self) -> nullcontext[None]:
        return nullcontext()

    def make_directories(self, directories: Sequence[str]) -> None:
        """Does nothing: an object store has no directories."""

    def names(self, directory: str) -> list[str]:
        return sorted(one.base_name for one in self._listed(directory, recursive=False))

    def find(self, directory: str) -> list[StoredFile]:
        found = self._listed(directory, recursive=True)
        return [
            StoredFile(path=one.path, size=one.size or 0)
            for one in sorted(found, key=lambda one: str(one.path))
            if one.is_file
        ]

    def has(self, path: str) -> bool:
        with self._asked():
            return bool(self._store.get_file_info(path).is_file)

    def read(self, path: str) -> bytes:
        with self._asked(), self._store.open_input_file(path) as file:
            return bytes(file.read())

    def replace(self, path: str, content: bytes, *, durably: bool = True) -> None:
        # Without a buffer the content is not passed on as bytes, which delta-rs requires.
        size = len(content) + 1
        with self._asked(), self._store.open_output_stream(path, buffer_size=size) as file:
            file.write(content)

    def remove(self, path: str) -> None:
        if self.has(path):
            with self._asked():
                self._store.delete_file(path)

    def move(self, path: str, target: str) -> None:
        self.replace(target, self.read(path))
        self.remove(path)

    def sync(self, paths: Sequence[str]) -> None:
        """Does nothing: objects are durable once written."""

    def arrow(self) -> Any:
        return self._store

    def arrow_path(self, path: str) -> str:
        return path

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        try:
            with self._store.open_output_stream(path) as file:
                yield file
        except OSError as error:
            if error.errno is None:  # The store's: what the caller reads meanwhile has a number.
                raise self._refusal(error) from error
            raise

    def _listed(self, directory: str, *, recursive: bool) -> list[Any]:
        import pyarrow.fs

        chosen = pyarrow.fs.FileSelector(directory, allow_not_found=True, recursive=recursive)
        with self._asked():
            return list(self._store.get_file_info(chosen))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Converts errors to one line, except those that the caller handles."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> UserError:
        return UserError(f"{self.address}: {one_line(error)}")


def one_line(error: Exception) -> str:
    """The message of delta-rs, which is on several lines and colored, as one line."""
    lines = _COLOR.sub("", str(error)).replace("\u21b3", "").splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())
