"""A table in an object store.

Objects written here have either a unique name, or are ledger entries, which two writers write with
the same content; the log's conditional puts decide which commit succeeds. A crash leaves objects
that no log names.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

from ottla.objects.arrow_store import ArrowStore
from ottla.objects.cloud_store import CloudStore
from ottla.objects.refusal import refusal


class SharedStore(ArrowStore):
    """Implements `TableStore`."""

    is_shared = True

    def __init__(self, address: str) -> None:
        super().__init__(address, "table")

    def claimed(self) -> nullcontext[None]:
        return nullcontext()

    def make_directories(self, directories: Sequence[str]) -> None:
        """Does nothing: an object store has no directories."""

    def sync(self, paths: Sequence[str]) -> None:
        """Does nothing: objects are durable once written."""

    def put_new(self, path: str, content: bytes) -> bool:
        return self._creating.put_new(path, content)

    @cached_property
    def _creating(self) -> CloudStore:
        """The same store by the library that puts on condition, which that of tables does not."""
        return CloudStore(self.address, "change feed")

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
