"""A disk that is sound, in a process that lacks descriptors, or without room for some files."""

import errno
import os
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from ottla.base.files import File
from ottla.testing.broken_disk import TAKES_ROOM, BreakableFileSystem
from ottla.testing.recording import IoCall, IoKind, RecordingFile

T = TypeVar("T")


class ScarceFileSystem(BreakableFileSystem):
    """`has_descriptors` and `full_for`, the ending of files for which there is no room, may change
    at any time; `refused` counts what has failed, or hangs.
    """

    has_descriptors = True
    full_for: str | None = None
    refused = 0
    answers: Event | None = None
    """Until it is set, no sync returns."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        self.check_descriptors(path)
        return _ScarceFile(self, super().open(path, writable=writable, create=create))

    def check_descriptors(self, path: str | None) -> None:
        if not self.has_descriptors:
            self.refused += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        if self.answers is not None and call.kind is IoKind.SYNC:
            self.refused += 1
            self.answers.wait()
        if self.full_for and call.path.endswith(self.full_for) and call.kind in TAKES_ROOM:
            self.refused += 1
            if fall_short is not None:
                fall_short()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), call.path)
        return super().perform(call, deed, fall_short)


class _ScarceFile(RecordingFile):
    def __init__(self, system: ScarceFileSystem, inner: File) -> None:
        super().__init__(system, inner)
        self._scarce = system

    def duplicate(self) -> RecordingFile:
        self._scarce.check_descriptors(None)  # as `os.dup` has it
        return _ScarceFile(self._scarce, self._inner.duplicate())
