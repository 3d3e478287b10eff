"""Objects of tables in S3 and compatible stores, Google Cloud Storage, Azure.

Uses `deltalake`, which also writes the log of tables: one package, and one way to configure
credentials. It lets no other thread run during a request. Objects are written atomically: a crash
leaves partial uploads, which are not listed.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ottla.base.extras import needed_for
from ottla.objects.addresses import check_provider, full_address
from ottla.objects.refusal import refusal
from ottla.objects.store import StoredObject

STORAGE_OPTIONS = {"allow_http": "true"}
"""Allows endpoints given as `http://`; all others use TLS."""

OPEN_OBJECTS: Final = 32
"""How many objects are remembered with their sizes, which a read would ask for again."""


class ArrowStore:
    """Implements `ObjectStore`. Credentials are configured as for `deltalake`.

    `noun` is what lies there, such as "table". Raises `UserError` for an address of no known store,
    or if the package is missing.
    """

    read_ahead = 0

    def __init__(
        self, address: str, noun: str, options: Mapping[str, str] = STORAGE_OPTIONS
    ) -> None:
        self.address = full_address(address)
        check_provider(address, noun)
        with needed_for(f"a {noun} in an object store"):
            import pyarrow.fs
            from deltalake.exceptions import DeltaError
            from deltalake.fs import DeltaStorageHandler
        try:
            handler = DeltaStorageHandler(self.address, dict(options))
        except (DeltaError, OSError) as error:
            raise refusal(address, error) from error
        self._store = pyarrow.fs.PyFileSystem(handler)
        self._opened: dict[str, Any] = {}

    def names(self, directory: str) -> list[str]:
        return sorted(one.base_name for one in self._listed(directory, recursive=False))

    def folders(self, directory: str) -> list[str]:
        found = self._listed(directory, recursive=False)
        return sorted(one.base_name for one in found if not one.is_file)

    def find(self, directory: str) -> list[StoredObject]:
        found = self._listed(directory, recursive=True)
        return [
            StoredObject(path=one.path, size=one.size or 0)
            for one in sorted(found, key=lambda one: str(one.path))
            if one.is_file
        ]

    def has(self, path: str) -> bool:
        with self._asked():
            return bool(self._store.get_file_info(path).is_file)

    def size(self, path: str) -> int:
        with self._asked():
            return int(self._open(path).size())

    def read(self, path: str) -> bytes:
        with self._asked(), self._store.open_input_file(path) as file:
            return bytes(file.read())

    def get(self, path: str, position: int, size: int) -> bytes:
        with self._asked():
            file = self._open(path)
            wanted = min(size, file.size() - position)
            if wanted <= 0:
                return b""
            try:
                return bytes(file.read_at(wanted, position))
            except OSError:
                self._opened.pop(path, None)
                raise

    def put(self, path: str, content: bytes, *, durably: bool = True) -> None:
        self._opened.pop(path, None)
        # Without a buffer the content is not passed on as bytes, which delta-rs requires.
        size = len(content) + 1
        with self._asked(), self._store.open_output_stream(path, buffer_size=size) as file:
            file.write(content)

    def delete(self, path: str) -> None:
        self._opened.pop(path, None)
        if self.has(path):
            with self._asked():
                self._store.delete_file(path)

    def _open(self, path: str) -> Any:
        """The object with its size, of which the store was asked once."""
        file = self._opened.pop(path, None) or self._store.open_input_file(path)
        self._opened[path] = file
        if len(self._opened) > OPEN_OBJECTS:
            self._opened.pop(next(iter(self._opened), path), None)
        return file

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
            raise refusal(self.address, error) from error
