"""The lines of the integrity file, each with a checksum: a log of ten thousand segments has thirty
thousand of them, which are checked together.

Format page: docs/format/ottla-integrity.md.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import compress, count
from operator import ne

from ottla.codec.crc32c import checksum_function, crc32c

HEADER_SIZE = 1024
"""More than the log's line has: the name of a topic, which has at most 249 letters, and numbers."""

CHECKSUM_SIZE = len(b" %08x\n" % 0)
"""Of the checksum of a line, with the space before it and the end of the line."""


def line_of(*words: str) -> bytes:
    content = " ".join(words).encode("ascii")
    return b"%s %08x\n" % (content, crc32c(content))


def checked_lines(content: bytes) -> list[str]:
    """The lines without their checksums, up to the first that is damaged or incomplete."""
    *lines, _ = content.split(b"\n")
    found = [line[: 1 - CHECKSUM_SIZE] for line in lines]
    stated = [line[1 - CHECKSUM_SIZE :] for line in lines]
    if b"".join(stated) != _texts(found):
        expected = (b" %08x" % crc32c(line) for line in found)
        del found[next(compress(count(), map(ne, stated, expected)), len(found)) :]
    return b"\n".join(found).decode("latin-1").split("\n") if found else []


def _texts(lines: Sequence[bytes]) -> bytes:
    """The checksums of lines, each with a space before it."""
    checksums = array("I", map(checksum_function(), lines))
    if sys.byteorder == "little":
        checksums.byteswap()
    return (" " + checksums.tobytes().hex(" ", 4)).encode()


def size_of(lines: Sequence[str]) -> int:
    """The bytes of lines without their checksums in the file."""
    return sum(map(len, lines)) + CHECKSUM_SIZE * len(lines)
