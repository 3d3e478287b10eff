"""The location of a table: a directory of this machine, or an address in an object store.

Paths are relative to the table and use slashes. A directory has one writer at a time, by a lock; an
object store has no locks, so several may write at once, and the table's log decides whose commit
succeeds.
"""

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
ICEBERG = "iceberg://"
"""The prefix of tables in a catalog, which knows their locations."""

_LOCAL_ADDRESS = lazy_pattern(r"(file|local):/")
_ONE_SLASH = lazy_pattern(r"([a-z][a-z0-9+.-]+):/(?!/)(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file; `size` is in bytes."""

    path: str
    size: int


class TableStore(Protocol):
    """The operations of a table on its location. An `OSError` passes through."""

    @property
    def address(self) -> str:
        """The address as people and other programs write it, without a slash at the end."""

    @property
    def is_shared(self) -> bool:
        """Whether others may write at the same time."""

    def claimed(self) -> AbstractContextManager[None]:
        """Excludes other writers, if possible; raises `UserError` if one is active."""

    def make_directories(self, directories: Sequence[str]) -> None:
        """Creates directories durably, if the store has directories."""

    def names(self, directory: str) -> list[str]:
        """The sorted names in a directory (`""` is the table's own); empty if it does not exist."""

    def find(self, directory: str) -> list[StoredFile]:
        """All files below a directory, at any depth, sorted."""

    def has(self, path: str) -> bool:
        """Whether there is a file of that name."""

    def read(self, path: str) -> bytes:
        """The content of a file; raises `FileNotFoundError`."""

    def replace(self, path: str, content: bytes, *, durably: bool = True) -> None:
        """Creates a file or replaces its content, atomically."""

    def remove(self, path: str) -> None:
        """Removes a file; no error if it does not exist."""

    def sync(self, paths: Sequence[str]) -> None:
        """Makes existing files and their names durable."""

    def arrow(self) -> Any:
        """The `pyarrow.fs.FileSystem` for reading Parquet."""

    def arrow_path(self, path: str) -> str:
        """The path of a file in that file system."""

    def output(self, path: str) -> AbstractContextManager[Any]:
        """A new file for writing, which becomes visible, complete, when the block ends without
        error.
        """


def is_address(path: str) -> bool:
    """Whether the text is an address such as `s3://bucket/tables/orders`, rather than a path."""
    return _ADDRESS.match(path) is not None


def full_address(path: str) -> str:
    """The one spelling of a table's address in reports: an absolute path for a directory.

    Raises `UserError` for a misspelled address, which would be the path of a directory.
    """
    if _LOCAL_ADDRESS.match(path):
        raise UserError(f"{path}: give a directory of this machine by its path, without file:")
    if found := _ONE_SLASH.match(path):
        raise UserError(
            f"{path}: write {found[1]}://{found[2]}, or ./{path} for a directory of this machine"
        )
    if not is_address(path):
        return os.path.abspath(path)
    scheme, mark, rest = path.partition("://")
    return scheme + mark + rest.rstrip("/")


def check_location(path: str) -> None:
    """Raises `UserError` for an address that cannot be a table's; accesses only a directory."""
    address = full_address(path)
    if not is_address(address):
        from ottla.tables.stores.local_store import LocalStore

        LocalStore(address).check_place()
    elif not address.startswith(ICEBERG):
        open_store(address)


def open_store(path: str) -> TableStore:
    """The location of a table, without accessing it.

    Raises `UserError` for an invalid address, or if its package is missing.
    """
    address = full_address(path)
    if is_address(address):
        from ottla.tables.stores.object_store import ObjectStore

        return ObjectStore(address)
    from ottla.tables.stores.local_store import LocalStore

    return LocalStore(address)
