"""Whether a log directory may still be written: the first disk error takes it offline for good.

After an error nobody knows what reached the disk (a failed fsync drops the pages it could not
write and the next one succeeds), so nothing is tried again; a restart recovers. Kafka's
counterpart: `LogDirFailureChannel`.
"""

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EMFILE, ENFILE
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from ottla.base.errors import StorageError

logger = logging.getLogger(__name__)


class DirectoryHealth:
    """Shared by a directory and its logs; `failure` is what took it offline."""

    __slots__ = ("directory", "failure")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.failure: StorageError | None = None

    def fail(self, error: OSError) -> StorageError:
        if self.failure is None:
            reason = f"{error.strerror or error} ({error.filename or 'no file named'})"
            if error.errno in (EMFILE, ENFILE):
                reason += "; let the process have more open files (ulimit -n)"
            self.failure = StorageError(self.directory, reason)
            logger.error("%s goes offline until a restart: %s", self.directory, reason)
        return self.failure

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Refuses work on an offline directory, and takes it offline at an `OSError`."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error


class HasHealth(Protocol):
    @property
    def health(self) -> DirectoryHealth: ...


Owner = TypeVar("Owner", bound=HasHealth)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def touches_disk(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Result]:
    """Refuses work on an offline directory, and takes it offline at an `OSError`.

    The decorated method raises `StorageError` in both cases.
    """

    @functools.wraps(method)
    def guarded(self: Owner, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        failure = self.health.failure
        if failure is not None:
            raise failure
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            raise self.health.fail(error) from error

    return cast(Callable[Concatenate[Owner, Parameters], Result], guarded)
