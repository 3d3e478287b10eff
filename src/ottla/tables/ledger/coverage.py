"""Determines which commit supplied the row of each offset, after reruns have replaced ranges."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.entries import LedgerEntry, LoadedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(OffsetRange):
    """Offsets of one partition supplied by one commit; `stated` is the whole range that it read."""

    stated: LoadedPartition
    commit_id: int

    @property
    def is_whole(self) -> bool:
        """Whether no rerun has replaced a part of the range."""
        return self.offsets == self.stated.offsets


def covered(entries: Iterable[LedgerEntry]) -> dict[int, list[Piece]]:
    """The pieces by partition, in order; there are gaps at offsets that were never read."""
    pieces: dict[int, list[Piece]] = {}
    for entry in entries:
        for stated in entry.partitions:
            before = pieces.setdefault(stated.partition, [])
            if not stated.is_empty:
                pieces[stated.partition] = _with(before, _piece(entry, stated))
    return pieces


def first_gap(pieces: Iterable[Piece], wanted: OffsetRange) -> int | None:
    """The first offset of a range that no piece has; pieces are in order."""
    next_offset = wanted.from_offset
    for piece in pieces:
        if piece.from_offset <= next_offset < piece.until_offset:
            next_offset = piece.until_offset
    return next_offset if next_offset < wanted.until_offset else None


def parts_of(pieces: Iterable[Piece], wanted: OffsetRange) -> list[OffsetRange]:
    """The parts of a range that pieces have without a gap; pieces are in order."""
    parts: list[OffsetRange] = []
    for piece in pieces:
        first = max(piece.from_offset, wanted.from_offset)
        until = min(piece.until_offset, wanted.until_offset)
        if first >= until:
            continue
        if parts and parts[-1].until_offset == first:
            first = parts.pop().from_offset
        parts.append(OffsetRange(from_offset=first, until_offset=until))
    return parts


def _piece(entry: LedgerEntry, stated: LoadedPartition) -> Piece:
    return Piece(
        from_offset=stated.from_offset,
        until_offset=stated.until_offset,
        stated=stated,
        commit_id=entry.commit_id,
    )


def _with(pieces: Sequence[Piece], new: Piece) -> list[Piece]:
    if not pieces or pieces[-1].until_offset <= new.from_offset:
        return [*pieces, new]
    left = [rest for piece in pieces for rest in _without(piece, new)]
    return sorted([*left, new], key=lambda piece: piece.from_offset)


def _without(piece: Piece, taken: Piece) -> Iterator[Piece]:
    """The parts of a piece before and after the offsets of `taken`."""
    before = min(piece.until_offset, taken.from_offset)
    rest = max(piece.from_offset, taken.until_offset)
    if piece.from_offset < before:
        yield replace(piece, until_offset=before)
    if rest < piece.until_offset:
        yield replace(piece, from_offset=rest)
