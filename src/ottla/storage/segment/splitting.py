"""Splits a segment whose offsets are too far apart for its indexes (KAFKA-6264).

Indexes hold offsets relative to the segment's base offset, in 31 bits. Compaction in Kafka before
1.1.1 could merge segments into one with a wider span; recovery splits such a segment.

The pieces are written as `.cleaned` files and renamed to `.swap` from the last to the first, as
after a compaction. While a `.cleaned` file is left, later `.swap` files are unfinished work, and
the old segment is complete. Then recovery replaces the old segment by the pieces, or, after a
crash before that, splits it again if they do not fit. Kafka's counterpart:
`LocalLog.splitOverflowedSegment`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.storage import scan
from ottla.storage.files.filenames import FileKind, FileName, FileSuffix
from ottla.storage.files.log_file import LogFile

logger = logging.getLogger(__name__)

COPY_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes `start` to `end` of the old log, which become the segment of `base_offset`."""

    base_offset: int
    start: int
    end: int

    def name(self, suffix: FileSuffix) -> str:
        return FileName(offset=self.base_offset, kind=FileKind.LOG, suffix=suffix).text


def pieces_of(
    base_offset: int,
    batches: Iterable[tuple[int, int]],
    size: int,
    first_offset_at: Callable[[int], int],
) -> list[Piece]:
    """Divides a log of `size` bytes so that each piece's offsets fit its indexes.

    `batches` are positions and last offsets; `first_offset_at` returns the first offset of the
    batch at a position. The first piece keeps the old base offset and file name; it is empty if not
    even the first batch fits. Every other piece is named after its first batch. Bytes after the
    last batch, or from a batch out of order, stay in the last piece, where recovery finds them.
    """
    pieces: list[Piece] = []
    base, start, end_offset = base_offset, 0, base_offset
    for position, last_offset in batches:
        if last_offset < end_offset:
            break
        if last_offset - base > INT32_MAX:
            pieces.append(Piece(base, start, position))
            base, start = max(first_offset_at(position), end_offset), position
        end_offset = last_offset + 1
    return [*pieces, Piece(base, start, size)]


def split_segment(
    file_system: FileSystem, directory: str, log: LogFile, base_offset: int
) -> list[int]:
    """Writes the pieces of a log as `.swap` files, durably; the log itself is not changed.

    Returns their base offsets, ascending.
    """
    pieces = pieces_of(
        base_offset,
        _ends_of(log),
        log.written_size,
        lambda position: scan.batch_of(log, position).base_offset,
    )
    logger.warning(
        "%s: its offsets are too far apart for an index; it is split into %d segments, from %s",
        log.path, len(pieces), ", ".join(str(piece.base_offset) for piece in pieces),
    )  # fmt: skip
    for piece in pieces:
        _write(file_system, join(directory, piece.name(FileSuffix.CLEANED)), log, piece)
    file_system.sync_directory(directory)
    _mark_as_finished(file_system, directory, pieces)
    return [piece.base_offset for piece in pieces]


def _ends_of(log: LogFile) -> Iterator[tuple[int, int]]:
    """Positions and last offsets of the sound batches, with CRCs checked as in recovery."""
    view = log.map()
    try:
        with suppress(CorruptionError):
            for position, batch in scan.batches(view, log.path, checks=(scan.checksum,)):
                yield position, batch.last_offset
    finally:
        view.release()


def _write(file_system: FileSystem, path: str, log: LogFile, piece: Piece) -> None:
    file = file_system.open(path, writable=True, create=True)
    try:
        for position in range(piece.start, piece.end, COPY_SIZE):
            chunk = log.read(position, min(COPY_SIZE, piece.end - position))
            file.pwrite(chunk, position - piece.start)
        file.sync()
    finally:
        file.close()


def _mark_as_finished(file_system: FileSystem, directory: str, pieces: Sequence[Piece]) -> None:
    for piece in reversed(pieces):
        cleaned = join(directory, piece.name(FileSuffix.CLEANED))
        file_system.rename(cleaned, join(directory, piece.name(FileSuffix.SWAP)))
        # After each rename, so that the renames reach the disk in this order.
        file_system.sync_directory(directory)
