"""The location of a table: a directory of this machine, or an address in an object store.

Paths are relative to the table and have slashes. A directory has one writer at a time, by a lock;
an object store has none to give, so there any number write at once, and the table's log decides
which of them has made a commit.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")
ICEBERG = "iceberg://"
"""Of a table in a catalog, which says where it lies."""

_LOCAL_ADDRESS = re.compile(r"(file|local)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """`size` in bytes."""

    path: str
    size: int


class TableStore(Protocol):
    """The operations that a table needs of its location. An `OSError` passes through."""

    @property
    def address(self) -> str:
        """The place as people and other programs write it; no slash at the end."""

    @property
    def is_shared(self) -> bool:
        """Whether others may write at the same time."""

    def claimed(self) -> AbstractContextManager[None]:
        """Keeps other writers out, where that can be done; raises `UserError` when one is in."""

    def make_directories(self, directories: Sequence[str]) -> None:
        """Creates directories durably, if the store has directories."""

    def names(self, directory: str) -> list[str]:
        """Returns the sorted names in a directory (`""`: the table's own); empty if it does not
        exist.
        """

    def find(self, directory: str) -> list[StoredFile]:
        """All files below a directory, at any depth, sorted."""

    def has(self, path: str) -> bool:
        """Whether there is a file of that name."""

    def read(self, path: str) -> bytes:
        """The whole of a file; raises `FileNotFoundError`."""

    def replace(self, path: str, content: bytes, *, durably: bool = True) -> None:
        """Creates a file or replaces its content, atomically."""

    def remove(self, path: str) -> None:
        """Removes a file; no error when it is not there."""

    def move(self, path: str, target: str) -> None:
        """Gives a file another name."""

    def sync(self, paths: Sequence[str]) -> None:
        """Makes files that others wrote durable, with their names."""

    def arrow(self) -> Any:
        """The `pyarrow.fs.FileSystem` through which Parquet is read."""

    def arrow_path(self, path: str) -> str:
        """A file's path in that file system."""

    def output(self, path: str) -> AbstractContextManager[Any]:
        """A new file to write into, which is there, whole, once the block has ended well."""


def is_address(path: str) -> bool:
    """Whether the text is an address, such as `s3://bucket/tables/orders`, and not a path."""
    return _ADDRESS.match(path) is not None


def open_store(path: str) -> TableStore:
    """The place of a table. Nothing is asked of it yet.

    Raises `UserError` for an address that cannot be understood, or whose package is missing.
    """
    if _LOCAL_ADDRESS.match(path):
        raise UserError(f"{path}: give a directory of this machine by its path, without file://")
    if is_address(path):
        from ottla.tables.object_store import ObjectStore

        return ObjectStore(path)
    from ottla.tables.local_store import LocalStore

    return LocalStore(path)
