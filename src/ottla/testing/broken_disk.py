"""A real file system that a test can make fail: a full disk, or failing syncs."""

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from ottla.base.files import FileSystem, OsFileSystem
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem

T = TypeVar("T")

TAKES_ROOM = frozenset({IoKind.CREATE, IoKind.PWRITE, IoKind.PWRITEV, IoKind.MAKE_DIRECTORY})
SYNCS = frozenset({IoKind.SYNC, IoKind.SYNC_DIRECTORY})


class BreakableFileSystem(RecordingFileSystem):
    """Passes every call on unless it was made to fail; does not record calls."""

    def __init__(self, inner: FileSystem | None = None) -> None:
        super().__init__(inner or OsFileSystem())
        self._is_full = False
        self._fails_syncs = False

    def fill(self) -> None:
        """Makes every write fail with ENOSPC."""
        self._is_full = True

    def fail_syncs(self) -> None:
        """Makes every fsync fail with EIO."""
        self._fails_syncs = True

    def repair(self) -> None:
        """Ends the failures. An offline log directory stays offline until it is reopened."""
        self._is_full = self._fails_syncs = False

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        if self._is_full and call.kind in TAKES_ROOM:
            raise _failure(errno.ENOSPC, call)
        if self._fails_syncs and call.kind in SYNCS:
            raise _failure(errno.EIO, call)
        return deed()


def _failure(number: int, call: IoCall) -> OSError:
    return OSError(number, os.strerror(number), call.path)
