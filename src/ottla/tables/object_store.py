"""A table in an object store: S3 and what speaks as it does, Google's, Azure's, through fsspec.

Objects cannot be renamed, but they can be put on the condition that there is none of that name:
`If-None-Match: *` on S3, `ifGenerationMatch=0` on Google's. fsspec's file systems have that as
`pipe_file(..., mode="create")`; `pyarrow.fs`, with which Parquet is read and written here as well,
has it not, but takes fsspec's file systems as its own. An object is there whole or not at all, so
a kill leaves objects that no manifest entry names, and parts of uploads, which no listing shows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from ottla.base.errors import UserError
from ottla.tables.store import StoredFile

_MS = 1000


class ObjectStore:
    """Implements `TableStore`. Credentials are found as the store's own package finds them."""

    is_shared = True

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        try:
            import fsspec.core

            # Others write too: nothing that was listed before holds.
            self._store, root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"{address}: {error} (a table in an object store needs fsspec and its package for "
                f"the store: pip install 'ottla[s3]', or gcsfs, or adlfs)"
            ) from error
        self._root = root.rstrip("/")

    def claimed(self) -> nullcontext[None]:
        return nullcontext()

    def make_directories(self, directories: Sequence[str]) -> None:
        """There is no such thing."""

    def names(self, directory: str) -> list[str]:
        place = self._at(directory)
        try:
            with self._asked():
                listed = self._store.ls(place, detail=False)
        except FileNotFoundError:
            return []
        below = (path.rstrip("/") for path in listed)
        return sorted(path.rsplit("/", 1)[-1] for path in below if path != place)

    def find(self, directory: str) -> list[StoredFile]:
        with self._asked():
            found = self._store.find(self._at(directory), detail=True)
        return [
            StoredFile(path=path[len(self._root) + 1 :], size=int(status["size"] or 0))
            for path, status in sorted(found.items())
        ]

    def has(self, path: str) -> bool:
        with self._asked():
            return bool(self._store.exists(self._at(path)))

    def read(self, path: str) -> bytes:
        with self._asked():
            return bytes(self._store.cat_file(self._at(path)))

    def read_all(self, paths: Sequence[str]) -> list[bytes]:
        """At the same time, as many as fsspec asks for at once."""
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        places = [self._at(path) for path in paths]
        with self._asked():
            found = self._store.cat(places)
        return [bytes(found[place]) for place in places]

    def create(self, path: str, content: bytes) -> None:
        with self._written():
            self._store.pipe_file(self._at(path), content, mode="create")

    def replace(self, path: str, content: bytes, *, durably: bool = True) -> None:
        with self._written():
            self._store.pipe_file(self._at(path), content)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError), self._asked():
            self._store.rm_file(self._at(path))

    def remove_empty(self, directory: str) -> None:
        """There is no such thing."""

    def modified_ms(self, path: str) -> int:
        with self._asked():
            return int(self._store.modified(self._at(path)).timestamp() * _MS)

    def sync(self, paths: Sequence[str]) -> None:
        """What is there, lasts."""

    def arrow(self) -> Any:
        import pyarrow.fs

        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(self._store))

    def arrow_path(self, path: str) -> str:
        return self._at(path)

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        with self._store.open(self._at(path), "wb") as file:
            yield file

    def upload(self, local_path: str, path: str) -> None:
        """Puts a file of this machine there."""
        with self._written():
            self._store.put_file(local_path, self._at(path))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Reports errors in one line, except those that the caller handles."""
        try:
            yield
        except (FileExistsError, FileNotFoundError, UserError):
            raise
        except Exception as error:
            # Each store's package has errors of its own: no credentials, no network, no right.
            raise UserError(f"{self.address}: {error}") from error

    @contextmanager
    def _written(self) -> Iterator[None]:
        """The same, where nothing that is missing can be asked about but the bucket."""
        try:
            with self._asked():
                yield
        except FileNotFoundError as error:
            raise UserError(f"{self.address}: {error}; is there such a bucket?") from error

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root
