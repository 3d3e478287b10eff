"""A tier's objects, read and written for a segment: what goes wrong is said of the segment."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, join
from ottla.objects.store import StoredObject, StoreError, StreamingStore
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.remote.remote_storage import MissingObjectError, TierError
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata

_COPY = "put it back from a copy of the tier"

_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)
"""What a disk says that will say the same tomorrow."""


class TierObjects:
    """Paths are relative to the store. What is missing raises `MissingObjectError`; a store that
    does not answer, or refuses, raises `TierError`.
    """

    def __init__(self, store: StreamingStore) -> None:
        self._store = store

    @property
    def address(self) -> str:
        return self._store.address

    @property
    def read_ahead(self) -> int:
        """See `ObjectStore.read_ahead`."""
        return self._store.read_ahead

    def size(self, path: str, segment: RemoteLogSegmentMetadata) -> int:
        with self._for(segment, path):
            return self._store.size(path)

    def has(self, path: str) -> bool:
        with self._asked(path):
            return self._store.has(path)

    def get(self, path: str, position: int, size: int, segment: RemoteLogSegmentMetadata) -> bytes:
        """Exactly `size` bytes of an object: fewer are damage, since it was longer before."""
        with self._for(segment, path):
            content = self._store.get(path, position, size)
        if len(content) != size:
            reason = f"ends after {position + len(content)} bytes, and has lost its end"
            raise self.damage(segment, path, reason, position + len(content))
        return content

    def read(self, path: str, segment: RemoteLogSegmentMetadata) -> bytes:
        with self._for(segment, path):
            return self._store.read(path)

    def find(self, path: str) -> bytes | None:
        """The whole content of an object; `None` if it does not exist."""
        with self._asked(path):
            try:
                return self._store.read(path)
            except FileNotFoundError:
                return None

    def names(self, directory: str) -> list[str]:
        with self._asked(directory):
            return self._store.names(directory)

    def folders(self, directory: str) -> list[str]:
        with self._asked(directory):
            return self._store.folders(directory)

    def find_all(self, directory: str) -> list[StoredObject]:
        """All objects below a directory, with their sizes."""
        with self._asked(directory):
            return self._store.find(directory)

    def put(self, path: str, parts: Iterable[Buffer]) -> int:
        """Writes an object, and asks the store for its size, which is returned: a tier that has
        less than it says must not be known as the place of a segment.
        """
        size = 0

        def counted() -> Iterator[Buffer]:
            nonlocal size
            for part in parts:
                size += len(part)
                yield part

        with self._asked(path):
            self._store.put_parts(path, counted())
            try:
                found = self._store.size(path)
            except FileNotFoundError:
                found = -1
        if found != size:
            has = "does not exist" if found < 0 else f"has {found} bytes"
            raise TierError(
                f"{self.full_path(path)}: {has} after {size} bytes were written without an error; "
                f"check the store, which does not keep what it was given",
                is_retriable=True,
            )
        return size

    def delete_all(self, paths: Sequence[str]) -> None:
        with self._asked(paths[0]):
            self._store.delete_all(paths)

    def checked(self, segment: RemoteLogSegmentMetadata, path: str) -> str:
        """The path of a segment's object, unless it would be outside the store: names come from
        records and objects.
        """
        if not path.isprintable() or any(part in ("", ".", "..") for part in path.split("/")):
            raise self.damage(segment, ascii(path), "is no name of an object")
        return path

    def full_path(self, path: str) -> str:
        """The object's own address."""
        return join(self.address, path)

    def damage(
        self, segment: RemoteLogSegmentMetadata, path: str, reason: str, position: int = 0
    ) -> CorruptionError:
        """The error about a segment's object."""
        return CorruptionError(self.full_path(path), position, f"{reason} {remedy(segment)}")

    @contextmanager
    def about(self, segment: RemoteLogSegmentMetadata, path: str) -> Iterator[None]:
        """Says of the segment what is found wrong in one of its objects."""
        try:
            yield
        except CorruptionError as error:
            if error.path.startswith(self.address):
                raise  # Of another object, which was needed to judge this one.
            raise self.damage(segment, path, error.reason, error.position) from error

    @contextmanager
    def _for(self, segment: RemoteLogSegmentMetadata, path: str) -> Iterator[None]:
        with self._asked(path):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError) as error:
                reason = f"is missing {remedy(segment)}"
                raise MissingObjectError(self.full_path(path), 0, reason) from error

    @contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        """Says what a disk refuses in one line, as an object store does by itself."""
        try:
            yield
        except StoreError as error:
            raise TierError(str(error), is_retriable=error.is_retriable) from error
        except OSError as error:
            text = error.strerror or str(error)
            raise TierError(
                f"{self.full_path(path)}: {text}; let this user read and write the tier, and check "
                f"its disk",
                is_retriable=error.errno not in _REFUSALS,
            ) from error


def remedy(segment: RemoteLogSegmentMetadata) -> str:
    """Whose the object is, and what to do about its damage."""
    one = segment.partition
    name = f"{one.topic}-{one.partition}"
    if segment.end_offset == MAX_OFFSET:  # Not known yet.
        return f"({name}, from offset {segment.start_offset}); {_COPY}"
    return (
        f"({name}, offsets {segment.start_offset} to {segment.end_offset}); {_COPY}, or give up "
        f"the log up to these offsets: `ottla delete-records`, --before {segment.end_offset + 1}"
    )
