"""The location of a table: a directory of this machine, or an address in an object store.

Paths are relative to the table and use slashes. A directory has one writer at a time, by a lock; an
object store has no locks, so several may write at once, and the table's log decides whose commit
succeeds.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ottla.objects.addresses import full_address, is_address
from ottla.objects.store import ObjectStore

ICEBERG = "iceberg://"
"""The prefix of tables in a catalog, which knows their locations."""


class TableStore(ObjectStore, Protocol):
    """The operations of a table on its location."""

    @property
    def is_shared(self) -> bool:
        """Whether others may write at the same time."""

    def claimed(self) -> AbstractContextManager[None]:
        """Excludes other writers, if possible; raises `UserError` if one is active."""

    def make_directories(self, directories: Sequence[str]) -> None:
        """Creates directories durably, if the store has directories."""

    def sync(self, paths: Sequence[str]) -> None:
        """Makes existing files and their names durable."""

    def put_new(self, path: str, content: bytes) -> bool:
        """Creates a file durably and atomically; `False` if there is one of that name."""

    def arrow(self) -> Any:
        """The `pyarrow.fs.FileSystem` for reading Parquet."""

    def arrow_path(self, path: str) -> str:
        """The path of a file in that file system."""

    def output(self, path: str) -> AbstractContextManager[Any]:
        """A new file for writing, which becomes visible, complete, when the block ends without
        error.
        """


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
        from ottla.tables.stores.shared_store import SharedStore

        return SharedStore(address)
    from ottla.tables.stores.local_store import LocalStore

    return LocalStore(address)
