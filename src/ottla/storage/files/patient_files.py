"""Files of a part of the broker that waits where others are refused: without a descriptor, or
memory, a call is tried again until there is one, and nobody has to know.

Only calls that have done nothing are repeated; a failed write or sync never is.
"""

import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

from ottla.base.errors import ShortageError
from ottla.base.files import File, FileSystem, is_shortage
from ottla.base.open_files import OpenFiles

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE_S: Final = 0.1
"""The time between two attempts."""

NO_LIMIT: Final = 1 << 30

TRIED_AGAIN: Final = frozenset(
    {
        "duplicate",
        "link",
        "list",
        "list_others",
        "lock",
        "make_directory",
        "map",
        "map_numbers",
        "names",
        "remove",
        "read_start",
        "rename",
        "sizes",
        "some_files",
        "status",
        "sync_directory",
    }
)
"""Methods of a `FileSystem` and of a `File` that a shortage can fail before they have begun."""


class Patience:
    """Tries again what a shortage has failed, and says so; without `wait` nothing is repeated.

    `wait` takes seconds, and returns whether nobody is to wait any more, as at the end of the
    process. Threads may share it.
    """

    def __init__(
        self, wait: Callable[[float], bool] | None = None, what: str = "", path: str = ""
    ) -> None:
        """`what` waits, for people; `path` is its directory."""
        self._wait = wait
        self._what = what
        self._path = path
        self._count = 0

    def carry_out(self, deed: Callable[..., T], *args: Any, **more: Any) -> T:
        """Raises the `OSError` or `ShortageError` of a deed when nobody is to wait any more, and
        any other error at once.
        """
        is_told = False
        while True:
            try:
                result = deed(*args, **more)
            except (OSError, ShortageError) as error:
                if self._wait is None or not is_passing(error) or self._wait(PAUSE_S):
                    raise
                is_told = is_told or self._tell(error)
            else:
                if is_told:
                    logger.warning("%s: %s goes on", self._path, self._what)
                return result

    def _tell(self, error: OSError | ShortageError) -> bool:
        self._count += 1
        if self._count.bit_count() != 1:  # it may come again and again: the 1st, 2nd, 4th, 8th, ...
            return False
        if isinstance(error, ShortageError):
            logger.warning("%s: %s waits: %s", self._path, self._what, error.reason)
            return True
        place = f" ({error.filename})" if error.filename else ""
        logger.warning(
            "%s: %s waits: %s%s; raise the process's limit of open files (ulimit -n) or of memory",
            self._path, self._what, error.strerror, place,
        )  # fmt: skip
        return True


def is_passing(error: OSError | ShortageError) -> bool:
    """Whether a call has failed before it began, and may succeed later."""
    if isinstance(error, ShortageError):
        return True
    return error.errno in (errno.EMFILE, errno.ENFILE) or is_shortage(error)


class _Patient:
    """A `FileSystem` or `File`, some of whose methods are repeated."""

    def __init__(self, inner: Any, patience: Patience) -> None:
        self._inner = inner
        self._patience = patience

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in TRIED_AGAIN:
            return partial(self._patience.carry_out, found)
        return found


class _PatientFile(_Patient):
    def duplicate(self) -> File:
        copy = self._patience.carry_out(self._inner.duplicate)
        return cast(File, _PatientFile(copy, self._patience))


class _PatientFiles(_Patient):
    def __init__(self, inner: FileSystem, patience: Patience) -> None:
        super().__init__(inner, patience)
        self.open_files = OpenFiles(NO_LIMIT)

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        opened = self._patience.carry_out(self._inner.open, path, writable=writable, create=create)
        return cast(File, _PatientFile(opened, self._patience))


def patient_files(inner: FileSystem, patience: Patience) -> FileSystem:
    """The same files; those that are open here stay so, since whoever closes idle ones is another
    thread.
    """
    return cast(FileSystem, _PatientFiles(inner, patience))
