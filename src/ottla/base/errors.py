"""Ottla's errors: one class for each party that must act.

`ApiError` goes to the peer, `ProtocolError` closes its connection, `CorruptionError` is for
recovery to decide, `StorageError` takes a directory offline, `UserError` is one line for a person.
"""

import errno
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ottla.base.error_codes import ErrorCode

SHOWN_COUNT = 8
"""The number of existing names to list if none is similar."""


class OttlaError(Exception):
    """The base class of Ottla's errors. Each can be copied and pickled, with its fields.

    >>> try:
    ...     log.offsets("order")
    ... except ottla.OttlaError as error:
    ...     print(type(error).__name__)
    UnknownNameError
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By default `args` are passed to the class, but they are only the text.
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[OttlaError], args: tuple[object, ...]) -> OttlaError:
    """Recreates an error that was pickled; its fields follow."""
    error = kind.__new__(kind)
    error.args = args
    return error


class UserError(OttlaError):
    """A request of a person that cannot be carried out: one line names the problem and the fix.

    >>> log.offsets("order")
    Traceback (most recent call last):
    ottla.base.errors.UnknownNameError: there is no topic order; did you mean orders?
    """


class RefusalError(UserError):
    """A valid request that is rejected: a command exits with 1 rather than 2."""


class UnreachableError(UserError):
    """No broker answers; a later attempt may succeed.

    >>> issubclass(ottla.UnreachableError, ottla.UserError)
    True
    """


class UnknownNameError(RefusalError):
    """A topic, group or pattern that matches nothing; `nearest` are similar names.

    >>> try:
    ...     log.offsets("order")
    ... except ottla.UnknownNameError as error:
    ...     print(error.name, error.nearest)
    order ['orders']
    """

    def __init__(self, noun: str, name: str, known: Iterable[str], where: str = "") -> None:
        names = sorted(known)
        found = nearest(name, names)
        place = f" in {where}" if where else ""
        hint = ""
        if found:
            hint = f"; did you mean {' or '.join(found)}?"
        elif own := [one for one in names if not one.startswith("__")]:  # no internal topics
            shown = ", ".join(own[:SHOWN_COUNT])
            hint = f"; there is {shown}" if len(own) == 1 else f"; there are {shown}"
            hint += f" and {len(own) - SHOWN_COUNT} more" if len(own) > SHOWN_COUNT else ""
        super().__init__(f"there is no {noun} {name}{place}{hint}")
        self.name = name
        self.nearest = found


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most similar, best first; three at most."""
    from difflib import get_close_matches

    return get_close_matches(name, sorted(known), n=3, cutoff=0.6)


class ApiError(OttlaError):
    """An error that is answered with one of Kafka's error codes.

    >>> try:
    ...     log.create_topic("orders")
    ... except ottla.ApiError as error:
    ...     print(error.code.name)
    TOPIC_ALREADY_EXISTS
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.description)
        self.code = code
        self.message = message or code.description

    def without_traceback(self) -> "ApiError":
        """The error without its traceback, whose frames would keep the answer's objects alive.

        >>> try:
        ...     log.create_topic("orders")
        ... except ottla.ApiError as error:
        ...     print(error.without_traceback().__traceback__)
        None
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class ProtocolError(OttlaError):
    """The peer violated the wire protocol; its connection is closed."""


class UnreadyError(ProtocolError):
    """Who may do what is not known yet; whoever asked comes again."""


class CorruptionError(OttlaError):
    """Bytes on disk or in a batch are not valid.

    >>> print(ottla.CorruptionError("data/orders-0/00000000000000000000.log", 71, "CRC mismatch"))
    data/orders-0/00000000000000000000.log at byte 71: CRC mismatch
    """

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


DISK_REMEDIES: Final = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk, or have the quota raised",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
}
"""The fixes for errors of a disk that is not broken."""


class StorageError(OttlaError):
    """A directory can no longer be trusted with writes; it goes offline until a restart.

    >>> print(ottla.StorageError("data", "No space left on device"))
    data: No space left on device
    """

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory}: {reason}")
        self.directory = directory
        self.reason = reason


class ShortageError(StorageError):
    """The process lacks descriptors or memory for a request; the directory stays online.

    Nothing has been changed on the disk, and the same request may succeed later.
    """


class TaskError(OttlaError):
    """A task failed with an unexpected error, or was killed.

    The text is that of the error, and `kind` the name of its class; empty if the task was killed.
    """

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class RecordError(NamedTuple):
    """Why one record is refused; `index` is its position in the batch, from 0."""

    index: int  # type: ignore[assignment]  # also a method of tuples
    message: str


class InvalidRecordsError(ApiError):
    """Some records of a batch break the topic's rules (Kafka: `RecordValidationException`)."""

    def __init__(self, code: ErrorCode, message: str, records: list[RecordError]) -> None:
        super().__init__(code, message)
        self.records = records
