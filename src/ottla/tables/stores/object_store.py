"""A table in an object store: S3 and compatible ones, Google Cloud Storage, Azure.

Uses `deltalake`, which also writes the table's log: one package, and one way to configure
credentials. Objects are written atomically, so a crash leaves objects that no log names, and
partial uploads, which are not listed. Objects written here have either a unique name, or are ledger
entries, which two writers write with the same content; the log's conditional puts decide which
commit succeeds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.tables.stores.store import StoredFile, full_address

_AMAZON = ("BUCKET", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
_GOOGLE = ("BUCKET", "GOOGLE_SERVICE_ACCOUNT, a key file")
_AZURE = ("CONTAINER", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY")
_SCHEMES = {
    **dict.fromkeys(("s3", "s3a"), _AMAZON),
    "gs": _GOOGLE,
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), _AZURE),
}
"""What a store calls the place of objects, and the variables with credentials for it."""

STORAGE_OPTIONS = {"allow_http": "true"}
"""Allows endpoints given as `http://`; all others use TLS."""

_WITHOUT_CREDENTIALS = lazy_pattern(r"credentials|token request|Account must be specified")
_COLOR = lazy_pattern(r"\x1b\[[0-9;]*m")


class ObjectStore:
    """Implements `TableStore`. Credentials are configured as for `deltalake`."""

    is_shared = True

    def __init__(self, address: str) -> None:
        self.address = full_address(address)
        _check_address(address)
        with needed_for("a table in an object store"):
            import pyarrow.fs
            from deltalake.exceptions import DeltaError
            from deltalake.fs import DeltaStorageHandler
        try:
            handler = DeltaStorageHandler(self.address, STORAGE_OPTIONS)
        except (DeltaError, OSError) as error:
            raise refusal(address, error) from error
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
                raise refusal(self.address, error) from error
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
            raise refusal(self.address, error) from error


def refusal(address: str, error: Exception) -> UserError:
    """What a store's library says, in one line, with a fix if credentials are missing."""
    text, scheme = _one_line(error), address.partition("://")[0]
    if scheme in _SCHEMES and _WITHOUT_CREDENTIALS.search(text):
        text = f"{text.rstrip('.')}; set {_SCHEMES[scheme][1]}"
    return UserError(f"{address}: {text}")


def _check_address(address: str) -> None:
    scheme, _, rest = address.partition("://")
    if scheme not in _SCHEMES:
        raise UserError(
            f"{address}: a table lies in a directory, given by its path, or in an object store, "
            f"such as s3://, gs:// or abfss://"
        )
    if not rest or rest.startswith("/"):
        raise UserError(f"{address}: write {scheme}://{_SCHEMES[scheme][0]}/TABLE")


def _one_line(error: Exception) -> str:
    """The message of delta-rs, which is on several lines and colored, as one line."""
    lines = _COLOR.sub("", str(error)).replace("\u21b3", "").splitlines()
    return ": ".join(line.strip() for line in lines if line.strip())
