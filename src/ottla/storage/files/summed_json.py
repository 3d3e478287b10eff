"""Small JSON files with a checksum: their last member is a CRC-32C of the rest of the file.

The checksum detects changes that are still valid JSON, such as of a digit. It covers the file
without the checksum's line. A file is replaced atomically, so that a crash leaves the old or the
new one.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.base.json_files import (
    END,
    UnknownVersionError,
    check_version,
    json_parts,
    read_json_file,
)
from ottla.codec.crc32c import crc32c, extended_crc32c

T = TypeVar("T")

FORMAT_VERSION = 2
_CHECKSUM = b',\n "checksum": "'
_END = END.encode()


def read_summed_json(
    file_system: FileSystem, path: str, parse: Callable[[Any], T], what: str
) -> T | None:
    """Like `read_json_file`; a file whose checksum does not match is damaged."""
    return read_json_file(file_system, path, parse, what, summed_content)


def summed_content(content: bytes) -> Any:
    """Parses a file; raises `ValueError` and others, which `read_json_file` handles."""
    found = json.loads(content)
    check_version(found["version"], FORMAT_VERSION)
    body, _, end = content.rpartition(_CHECKSUM)
    if end != _checksum_end(crc32c(body)):
        raise ValueError("the checksum does not match")
    return found


def check_summed_json(path: str, content: bytes) -> None:
    """Raises `CorruptionError` for a file whose checksum does not match."""
    try:
        summed_content(content)
    except UnknownVersionError as error:
        raise CorruptionError(path, 0, str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptionError(path, 0, f"its content is damaged ({error!r})") from error


def summed_json(fields: dict[str, Any]) -> Iterator[bytes]:
    """Yields the parts of a file in turns: the version, `fields`, and the checksum."""
    checksum, last = 0, b""
    for part in json_parts({"version": FORMAT_VERSION, **fields}):
        checksum = extended_crc32c(last, checksum)
        yield last
        last = part
    last = last.removesuffix(_END)
    yield last + _CHECKSUM + _checksum_end(extended_crc32c(last, checksum))


def _checksum_end(checksum_before: int) -> bytes:
    """The end of a file; `checksum_before` is that of everything before the checksum's line."""
    checksum = extended_crc32c(_END.rstrip(), checksum_before)
    return b'%08x"%s' % (checksum, _END)
