"""Small JSON files that are replaced atomically and validated when read."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file

T = TypeVar("T")


class UnknownVersionError(ValueError):
    """A file of Ottla's own has a format of another version."""


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


def check_version(found: object, known: int) -> None:
    """Raises `UnknownVersionError` unless a file has the version that this Ottla writes."""
    if found != known:
        raise UnknownVersionError(
            f"its format has version {found!r}, and this ottla knows {known} only: use the ottla "
            f"that wrote it"
        )
