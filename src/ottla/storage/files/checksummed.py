"""Checksummed files: small files of Ottla's own whose last line is a CRC-32C of the lines before.

They are stored next to Kafka's files. A file with a wrong checksum is treated as missing. Format
page: docs/format/ottla-integrity.md.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file
from ottla.codec.crc32c import crc32c

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHECKSUM_SIZE = 9
"""Eight hexadecimal digits and a newline."""


def with_checksum(content: bytes) -> bytes:
    return content + _checksum_line(content)


def without_checksum(path: str, content: bytes) -> bytes:
    """The content before the checksum; raises `CorruptionError` when the checksum is wrong."""
    inner = content[:-CHECKSUM_SIZE]
    if content[-CHECKSUM_SIZE:] != _checksum_line(inner):
        raise CorruptionError(path, 0, "the checksum does not match")
    return inner


def read_checksummed(
    file_system: FileSystem, path: str, parse: Callable[[str, bytes], T]
) -> T | None:
    """Returns the parsed content of a file, `None` if it is missing or damaged. Raises `OSError`.

    `parse` takes the content without its checksum. An empty file is not reported as damaged, since
    a power failure can leave an unsynced file empty.
    """
    try:
        content = read_file(file_system, path)
        return parse(path, without_checksum(path, content)) if content else None
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        logger.warning("%s; the file is ignored and rebuilt", error)
        return None


def is_one_bit_apart(one: bytes, other: bytes) -> bool:
    """Whether two contents differ by one bit: by damage, not by a program that wrote the file."""
    if len(one) != len(other):
        return False
    return sum((left ^ right).bit_count() for left, right in zip(one, other, strict=True)) == 1


def _checksum_line(content: bytes) -> bytes:
    return b"%08x\n" % crc32c(content)
