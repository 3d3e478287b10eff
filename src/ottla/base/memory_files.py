"""Files that are only read: what they hold came from elsewhere, such as a remote tier."""

import errno
from collections.abc import Sequence
from typing import Final, NoReturn

from ottla.base.files import Buffer, FileSlice, Numbers

COPIED_SIZE: Final = 32 * 1024
"""Bytes up to which a copy is cheaper than a part of its own in a write."""


class ReadOnlyFile:
    """The part of a `base.files.File` that changes it, refused."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        """Does nothing: there is no descriptor."""

    def renamed(self, path: str) -> None:
        self.path = path

    def fileno(self) -> int:
        raise self._refusal()

    def pwrite(self, buffer: Buffer, position: int) -> NoReturn:
        raise self._refusal()

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> NoReturn:
        raise self._refusal()

    def truncate(self, size: int) -> NoReturn:
        raise self._refusal()

    def map_numbers(self, count: int) -> Numbers:
        raise self._refusal()

    def sync(self) -> NoReturn:
        raise self._refusal()

    def _refusal(self) -> OSError:
        return OSError(errno.EROFS, "it is only read", self.path)


class MemoryFile(ReadOnlyFile):
    """Bytes in memory; a socket sends slices of `view` without a copy."""

    __slots__ = ("view",)

    def __init__(self, path: str, view: memoryview) -> None:
        super().__init__(path)
        self.view = view

    def duplicate(self) -> "MemoryFile":
        return self

    def size(self) -> int:
        return len(self.view)

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self.view[position : position + size])

    def map(self, size: int) -> memoryview:
        if size > len(self.view):
            raise ValueError(f"a map of {size} bytes is longer than {self.path}")
        return self.view[:size]


def uncopied(content: Buffer) -> Buffer | FileSlice:
    """What a message is to have of bytes that must stay unchanged until it is sent: the same, or,
    if they are many, a slice that is sent from where it is.
    """
    if len(content) <= COPIED_SIZE:
        return content
    return FileSlice(MemoryFile("a message", memoryview(content)), 0, len(content))
