"""Offsets of many partitions in one text file of a log directory.

Format: docs/format/checkpoints.md. A crash leaves the complete old file or the complete new one, so
its offsets may be older than the logs. Kafka's counterparts: `CheckpointFile`,
`OffsetCheckpointFile`.
"""

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.base.turns import parts_of, result_of
from ottla.storage.files.filenames import is_legal_topic_name

logger = logging.getLogger(__name__)

VERSION = 0

LINES_PER_STEP: Final = 2048
"""What is formatted at a time, in less than a millisecond."""

_LINE_TEXT = lazy_pattern(rb"[ -~]*")
_NUMBER = lazy_pattern(r"-?[0-9]{1,19}")


class OffsetCheckpoint:
    """One of the `*-offset-checkpoint` files."""

    __slots__ = ("_file_system", "path")

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """Returns offsets by (topic, partition), none if the file is missing or empty.

        Raises `CorruptionError`.
        """
        return self.find() or {}

    def find(self) -> dict[TopicPartition, int] | None:
        """Like `read`; `None` if the file is missing, or empty, as Kafka creates it."""
        try:
            content = read_file(self._file_system, self.path)
        except FileNotFoundError:
            return None
        return parse_offsets(self.path, content) if content else None

    def read_if_whole(self) -> dict[TopicPartition, int]:
        """Like `read`, but logs a damaged file and treats it as empty.

        Recovery then takes longer; no data is lost.
        """
        try:
            return self.read()
        except CorruptionError as error:
            logger.warning("%s; the file is treated as empty", error)
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the file; the lines are in the mapping's order."""
        self.replace(offsets_text(offsets))

    def replace(self, content: bytes) -> None:
        """Replaces the file by one of `offsets_text`."""
        replace_file(self._file_system, self.path, content)


def offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Formats a file; the lines are in the mapping's order."""
    return result_of(offsets_text_in_steps(offsets))


def offsets_text_in_steps(
    offsets: Mapping[TopicPartition, int],
) -> Generator[None, None, bytes]:
    """Like `offsets_text`, in short steps, during which the mapping must not change."""
    lines: list[str] = []
    for part in parts_of(offsets.items(), LINES_PER_STEP):
        lines += [f"{topic} {number} {at}" for (topic, number), at in part]
        yield
    return checkpoint_text(lines)


def parse_offsets(path: str, content: bytes) -> dict[TopicPartition, int]:
    """The inverse of `offsets_text`; raises `CorruptionError`."""
    lines = CheckpointLines(path, content)
    return dict(parse_checkpoint_entry(lines, words) for words in lines)


def parse_checkpoint_entry(
    lines: "CheckpointLines", words: list[str]
) -> tuple[TopicPartition, int]:
    if len(words) != 3 or not is_legal_topic_name(words[0]):
        raise lines.error("is not a topic, a partition and an offset")
    place = TopicPartition(words[0], lines.number(words[1], bits=32))
    return place, lines.number(words[2], bits=64)


class CheckpointLines:
    """Iterates over the entries of a checkpoint file as lists of words; errors name the line."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self._content = content
        self._position = 0
        self._line = 0

    def __iter__(self) -> Iterator[list[str]]:
        """Yields every entry; raises `CorruptionError` if their number is not the header's."""
        if not self._content:
            return
        version = self._header("the version")
        if version != VERSION:
            raise self.error(f"has unknown version {version}")
        expected = self._header("the number of entries")
        found = 0
        while (words := self._next()) is not None:
            found += 1
            yield words
        if found != expected:
            raise self.error(f"ends the file after {found} entries instead of {expected}")

    def error(self, reason: str) -> CorruptionError:
        return CorruptionError(self.path, self._position, f"line {self._line} {reason}")

    def number(self, word: str, *, bits: int) -> int:
        """Parses a word as a signed integer of `bits` bits; offsets of -1 exist."""
        value = int(word) if _NUMBER.fullmatch(word) else None
        if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self.error(f"has {word!r} for a number of {bits} bits")
        return value

    def _header(self, what: str) -> int:
        words = self._next()
        if words is None or len(words) != 1:
            raise self.error(f"is not {what}")
        return self.number(words[0], bits=32)

    def _next(self) -> list[str] | None:
        """Returns the next line's words; the position stays at this line until the next call."""
        if self._line:
            end = self._content.find(b"\n", self._position)
            self._position = len(self._content) if end < 0 else end + 1
        if self._position == len(self._content):
            return None
        self._line += 1
        end = self._content.find(b"\n", self._position)
        line = self._content[self._position : len(self._content) if end < 0 else end]
        line = line.removesuffix(b"\r")
        if _LINE_TEXT.fullmatch(line) is None:
            raise self.error("is not text")
        return line.decode("ascii").split()


def checkpoint_text(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()
