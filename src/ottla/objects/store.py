"""What every store can do with its objects.

Paths are relative to the store's address and use slashes.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.base.errors import UserError
from ottla.base.files import Buffer
from ottla.base.values import dataclass


class StoreError(UserError):
    """A store does not answer, or refuses. `is_retriable` says whether the same request may succeed
    later without a change of settings or permissions.
    """

    def __init__(self, text: str, *, is_retriable: bool) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object; `size` is in bytes."""

    path: str
    size: int


class ObjectStore(Protocol):
    """An object that does not exist raises `FileNotFoundError`. A directory's `OSError` passes
    through; an object store that does not answer, or refuses, raises `StoreError`.
    """

    @property
    def address(self) -> str:
        """The address as people and other programs write it, without a slash at the end."""

    @property
    def read_ahead(self) -> int:
        """How many bytes to ask for at once where what follows is read next: as many as arrive in
        a few times the time that a request takes by itself. 0 if requests cost nothing.
        """

    def names(self, directory: str) -> list[str]:
        """The sorted names in a directory (`""` is the store's own); empty if it does not exist."""

    def folders(self, directory: str) -> list[str]:
        """The sorted names in a directory under which there is more."""

    def find(self, directory: str) -> list[StoredObject]:
        """All objects below a directory, at any depth, sorted."""

    def has(self, path: str) -> bool:
        """Whether there is an object of that name."""

    def size(self, path: str) -> int:
        """The size of an object, in bytes."""

    def read(self, path: str) -> bytes:
        """The whole content of an object."""

    def get(self, path: str, position: int, size: int) -> bytes:
        """Up to `size` bytes of an object; fewer only at its end."""

    def put(self, path: str, content: bytes, *, durably: bool = True) -> None:
        """Creates an object or replaces its content, atomically."""

    def delete(self, path: str) -> None:
        """Removes an object; no error if it does not exist."""


class StreamingStore(ObjectStore, Protocol):
    """A store for objects that are not in memory as a whole. Every call lets other threads run."""

    def put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        """As `put`, durably, of content that need not be in memory as a whole. What `parts` raises
        passes through, and no object is left.
        """

    def delete_all(self, paths: Sequence[str]) -> None:
        """As `delete` of each, in a few requests, and durably."""
