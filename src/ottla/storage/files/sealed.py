"""Files of our own that tell by their last line whether they are whole: a CRC-32C of all before it.

For what stands beside Kafka's files and must never be believed when it is damaged. A file that is
not whole counts as none. Format page: docs/format/ottla-witness.md.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file
from ottla.codec.crc32c import crc32c

logger = logging.getLogger(__name__)

T = TypeVar("T")

SEAL_SIZE = 9
"""Eight hexadecimal digits and the end of the line."""


def sealed(content: bytes) -> bytes:
    return content + _seal(content)


def unsealed(path: str, content: bytes) -> bytes:
    """What was sealed; raises `CorruptionError`."""
    inner = content[:-SEAL_SIZE]
    if content[-SEAL_SIZE:] != _seal(inner):
        raise CorruptionError(path, 0, "the checksum does not fit")
    return inner


def read_sealed(file_system: FileSystem, path: str, parse: Callable[[str, bytes], T]) -> T | None:
    """What a file says; `None` where there is none, or it is damaged. Raises `OSError`.

    `parse` takes what was sealed. A power failure can leave a file empty that was not synced: that
    is no damage.
    """
    try:
        content = read_file(file_system, path)
        return parse(path, unsealed(path, content)) if content else None
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        logger.warning("%s; it is not believed, and made anew", error)
        return None


def is_one_bit_apart(one: bytes, other: bytes) -> bool:
    """Whether damage made the one of the other, and not somebody who wrote it anew."""
    if len(one) != len(other):
        return False
    return sum((left ^ right).bit_count() for left, right in zip(one, other, strict=True)) == 1


def _seal(content: bytes) -> bytes:
    return b"%08x\n" % crc32c(content)
