"""Whether a log directory may still be written: the first disk error takes it offline until a
restart. After an error it is unknown what reached the disk (a failed fsync drops the pages that it
could not write, and the next one succeeds), so nothing is retried; a restart recovers. A call that
could not begin for lack of descriptors or memory is not a disk error: only that request is refused.
Kafka's counterpart: `LogDirFailureChannel`.
"""

import errno
import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from ottla.base.errors import DISK_REMEDIES, ShortageError, StorageError
from ottla.base.files import is_shortage

logger = logging.getLogger(__name__)

REMEDIES: Final = {
    **DISK_REMEDIES,
    errno.ENOENT: "put back what is missing",
    errno.ENOTDIR: "put back the directory that was replaced",
    errno.EISDIR: "remove the directory that has the name of a file",
    errno.EROFS: "mount the disk so that it can be written",
    errno.EACCES: "give this user the right to write there",
}
"""What people can do about an error in the directory of a broker."""


def _none_is_gone(_: FileNotFoundError) -> None:
    return None


class DirectoryHealth:
    """Shared by a directory and its logs; `failure` took it offline, `fix` is the remedy.

    `of_one_log` returns what to raise instead if only the folder of one log is gone.
    """

    __slots__ = ("directory", "failure", "fix", "of_one_log", "shortages")

    def __init__(
        self,
        directory: str,
        of_one_log: Callable[[FileNotFoundError], StorageError | None] = _none_is_gone,
    ) -> None:
        self.directory = directory
        self.of_one_log = of_one_log
        self.failure: StorageError | None = None
        self.fix = "repair the disk"
        self.shortages = 0

    def fail(self, error: OSError, *, is_half_done: bool = False) -> StorageError:
        """Returns the error to raise, and takes the directory offline unless it is a shortage, or
        the end of one log only.

        `is_half_done`: the failed operation had begun to change files. Then a shortage takes the
        directory offline too, since the state of the files is unknown.
        """
        reason = str(error.strerror or error)
        if error.filename:
            reason += f" ({error.filename})"
        if is_shortage(error) and not is_half_done:
            reason += "; raise the process's limit of open files (ulimit -n) or of memory"
            self.shortages += 1
            if self.shortages.bit_count() == 1:  # clients try again: the 1st, 2nd, 4th, 8th, ...
                logger.warning(
                    "%s: request refused (%d in total): %s",
                    self.directory, self.shortages, reason,
                )  # fmt: skip
            return ShortageError(self.directory, reason)
        if self.failure is None and isinstance(error, FileNotFoundError):
            gone = self.of_one_log(error)
            if gone is not None:
                return gone
        if self.failure is None:
            self.failure = StorageError(self.directory, reason)
            self.fix = REMEDIES.get(error.errno or 0, self.fix)
            logger.error(
                "%s goes offline until a restart: %s; %s", self.directory, reason, self.fix
            )
        return self.failure

    @contextmanager
    def guarding(self, *, changes_files: bool = False) -> Iterator[None]:
        """Refuses work on an offline directory, and takes the directory offline on an `OSError`.

        `changes_files`: the work has several steps that must all complete, see `fail`.
        """
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            raise self.fail(error, is_half_done=changes_files) from error


class HasHealth(Protocol):
    @property
    def health(self) -> DirectoryHealth: ...


Owner = TypeVar("Owner", bound=HasHealth)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


Method = Callable[Concatenate[Owner, Parameters], Result]


def touches_disk(method: Method[Owner, Parameters, Result]) -> Method[Owner, Parameters, Result]:
    """Refuses work on an offline directory, and takes the directory offline on an `OSError`.

    The decorated method raises `StorageError` in both cases. A shortage only fails the call: its
    completed steps must be harmless, since the next call repeats them.
    """
    return _guarded(method, changes_files=False)


def changes_files(method: Method[Owner, Parameters, Result]) -> Method[Owner, Parameters, Result]:
    """Like `touches_disk`, for changes that must complete: a shortage also takes the directory
    offline.

    The state of the files is then unknown until a restart recovers them.
    """
    return _guarded(method, changes_files=True)


def _guarded(
    method: Method[Owner, Parameters, Result], *, changes_files: bool
) -> Method[Owner, Parameters, Result]:
    @functools.wraps(method)
    def guarded(self: Owner, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with self.health.guarding(changes_files=changes_files):
            return method(self, *args, **kwargs)

    return cast(Method[Owner, Parameters, Result], guarded)
