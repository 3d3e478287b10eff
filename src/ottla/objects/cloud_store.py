"""Objects of S3 and compatible stores, Google Cloud Storage, Azure.

Uses `deltalake`, which also writes the log of tables: one package, and one way to configure
credentials. Objects are written atomically: a crash leaves partial uploads, which are not listed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ottla.base.extras import needed_for
from ottla.base.files import Buffer
from ottla.base.patterns import lazy_pattern
from ottla.objects.addresses import PROVIDERS, check_provider, full_address
from ottla.objects.store import StoredObject, StoreError

STORAGE_OPTIONS = {"allow_http": "true"}
"""Allows endpoints given as `http://`; all others use TLS."""

READING_OPTIONS = {
    **STORAGE_OPTIONS,
    "connect_timeout": "5s",
    "timeout": "30s",
    "max_retries": "3",
    "retry_timeout": "30s",
}
"""For those who wait for an answer: without them a store that is down takes minutes to say so."""

READ_AHEAD: Final = 8 << 20
"""At 100 MB/s and 30 ms for a request this is three quarters of what the line could carry."""

OPEN_OBJECTS: Final = 32
"""How many objects are remembered with their sizes, which a read would ask for again."""

_WITHOUT_CREDENTIALS = lazy_pattern(r"credentials|token request|Account must be specified")
_REFUSED = lazy_pattern(r"\b40[13] |privileges|AccessDenied")
_SILENT = lazy_pattern(r"error sending request|timed out|error decoding response|\b50\d ")
_WITHOUT_PLACE = lazy_pattern(r"NoSuchBucket|ContainerNotFound")
_COLOR = lazy_pattern(r"\x1b\[[0-9;]*m")


class CloudStore:
    """Implements `ObjectStore`. Credentials are configured as for `deltalake`.

    `noun` is what lies there, such as "table". Raises `UserError` for an address of no known store,
    or if the package is missing.
    """

    read_ahead = READ_AHEAD

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

    def put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        self._opened.pop(path, None)
        with self._asked(), self._store.open_output_stream(path) as file:
            for part in parts:
                file.write(part)

    def delete(self, path: str) -> None:
        self._opened.pop(path, None)
        if self.has(path):
            with self._asked():
                self._store.delete_file(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

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


def refusal(address: str, error: Exception) -> StoreError:
    """What a store's library says, in one line, with the fix if it is known."""
    text, scheme = _one_line(error), address.partition("://")[0]
    is_permanent = any(one.search(text) for one in (_WITHOUT_CREDENTIALS, _WITHOUT_PLACE, _REFUSED))
    if scheme in PROVIDERS and (fix := _fix(scheme, text)):
        text = f"{text.rstrip('.')}; {fix}"
    return StoreError(f"{address}: {text}", is_retriable=not is_permanent)


def _fix(scheme: str, text: str) -> str | None:
    provider = PROVIDERS[scheme]
    if _WITHOUT_CREDENTIALS.search(text):
        return f"set {provider.credentials}"
    if _WITHOUT_PLACE.search(text):
        return f"check the name of the {provider.place.lower()}"
    if _REFUSED.search(text):
        return f"let these credentials read and list it, or set others: {provider.credentials}"
    if _SILENT.search(text):
        return f"try again when the store answers; {provider.endpoint} says where it is"
    return None


def _one_line(error: Exception) -> str:
    """The message of delta-rs, which is on several lines and colored, as one line."""
    lines = _COLOR.sub("", str(error)).replace("\u21b3", "").splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())
