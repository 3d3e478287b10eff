"""Histories as lines of JSON, one file per process, so that processes may be killed.

A process writes an operation when it begins, with an unknown outcome, and again, with the same
`process` and `began`, when it knows more. The last line is used; a torn line at the end of a file
is left by a killed process and skipped. A restarted process writes another file.
"""

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from ottla.base.closing import Closing
from ottla.testing.history.operations import (
    Assign,
    Begin,
    CommitOffsets,
    Crash,
    End,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    UnusableHistoryError,
)

TYPES: dict[str, type[Operation]] = {
    one.__name__: one for one in (Assign, Begin, CommitOffsets, Crash, End, LogEnd, Poll, Send)
}


class HistoryWriter(Closing):
    """Appends operations to a file; `write` returns when the operating system has the line.

    >>> from ottla.testing.history import Crash, HistoryWriter, read_history
    >>> directory.mkdir()
    >>> with HistoryWriter(directory / "p") as writer:
    ...     writer.write(Crash(process="p", began=7, ended=8))
    >>> read_history([directory / "p"])
    [Crash(process='p', began=7, ended=8)]
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def close(self) -> None:
        """Closes the file.

        >>> from ottla.testing.history import HistoryWriter, read_history
        >>> directory.mkdir()
        >>> HistoryWriter(directory / "p").close()
        >>> read_history([directory / "p"])
        []
        """
        self._file.close()

    def write(self, operation: Operation) -> None:
        """May be called from several threads."""
        self._file.write(format_operation(operation).encode() + b"\n")


def read_history(paths: Iterable[Path]) -> list[Operation]:
    """All operations in the files; raises `UnusableHistoryError` for an invalid line.

    >>> from ottla.testing.history import read_history
    >>> directory.mkdir()
    >>> with (directory / "p").open("w") as file:
    ...     print("what is this?", file=file)
    >>> read_history([directory / "p"])
    Traceback (most recent call last):
    ottla.testing.history.operations.UnusableHistoryError: ...
    """
    found: dict[tuple[str, str, int], Operation] = {}
    for path in paths:
        *lines, _torn = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                one = parse_operation(line.decode())
            except (ValueError, TypeError, KeyError) as error:
                raise UnusableHistoryError(
                    f"{path}, line {number}: not an operation: {error}"
                ) from None
            found[type(one).__name__, one.process, one.began] = one
    return sorted(found.values(), key=lambda one: one.began)


def format_operation(operation: Operation) -> str:
    """One line of JSON, without default values."""
    values: dict[str, Any] = {"type": type(operation).__name__}
    for one in fields(operation):
        value = getattr(operation, one.name)
        if isinstance(value, Outcome):
            value = value.value
        elif one.name == "records":
            value = [[read.partition, read.offset, read.value] for read in value]
        if value is not None:
            values[one.name] = value
    return json.dumps(values)


def parse_operation(line: str) -> Operation:
    """The inverse of `format_operation`; raises `ValueError`, `TypeError`, `KeyError`."""
    values = json.loads(line)
    kind = TYPES[values.pop("type")]
    if "outcome" in values:
        values["outcome"] = Outcome(values["outcome"])
    if "records" in values:
        values["records"] = tuple(Read(*one) for one in values["records"])
    if "source" in values:
        partition, offset = values["source"]
        values["source"] = (partition, offset)
    return kind(**values)
