"""Small JSON files that are replaced atomically and validated when read."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.base.turns import parts_in_turns
from ottla.base.values import dataclass

T = TypeVar("T")

LINES_AT_ONCE = 64


class UnknownVersionError(ValueError):
    """A file of Ottla's own has a format of another version."""


END = "\n}\n"
"""The end of a file written by `json_parts`."""


def read_json_file(
    file_system: FileSystem,
    path: str,
    parse: Callable[[Any], T],
    what: str,
    loads: Callable[[bytes], Any] = json.loads,
) -> T | None:
    """Reads and parses a file; `None` if it is missing; raises `CorruptionError`.

    `parse` and `loads` may raise Python's errors for wrong types, missing fields and invalid
    values; `what` describes the content in the message.
    """
    if file_system.status(path) is None:
        return None
    content = read_file(file_system, path)
    try:
        return parse(loads(content))
    except UnknownVersionError as error:
        raise CorruptionError(path, 0, str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptionError(path, 0, f"not {what} ({error!r})") from error


def write_json_file(file_system: FileSystem, path: str, fields: dict[str, Any]) -> None:
    """Replaces the file durably; raises `OSError`."""
    replace_file(file_system, path, json.dumps(fields, indent=1).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class Members:
    """A JSON object with many members, written in parts."""

    items: Iterable[tuple[str, Any]]


def json_parts(fields: dict[str, Any]) -> Iterator[bytes]:
    """Yields a file in parts, in turns: one line per member, and one per element of an iterable."""
    return ("".join(part).encode() for part in parts_in_turns(_json_lines(fields), LINES_AT_ONCE))


def _json_lines(fields: dict[str, Any]) -> Iterator[str]:
    yield "{"
    separator = "\n "
    for name, value in fields.items():
        yield f"{separator}{json.dumps(name)}: "
        separator = ",\n "
        if isinstance(value, str | int | dict | None):
            yield json.dumps(value)
        elif isinstance(value, Members):
            members = (f"{json.dumps(key)}: {json.dumps(one)}" for key, one in value.items)
            yield from _json_elements("{", members, "}")
        else:
            yield from _json_elements("[", map(json.dumps, value), "]")
    yield END


def _json_elements(begin: str, elements: Iterable[str], end: str) -> Iterator[str]:
    separator = begin + "\n  "
    for one in elements:
        yield separator + one
        separator = ",\n  "
    yield begin + end if separator.startswith(begin) else "\n " + end


def check_version(found: object, known: int) -> None:
    """Raises `UnknownVersionError` unless a file has the version that this Ottla writes."""
    if found != known:
        raise UnknownVersionError(
            f"its format has version {found!r}, and this ottla knows {known} only: use the ottla "
            f"that wrote it"
        )


def texts(values: Any) -> dict[str, str]:
    """A mapping of strings to strings; raises `TypeError` for anything else."""
    if not all(isinstance(text, str) for text in values.values()):
        raise TypeError("values must be texts")
    return dict(values)
