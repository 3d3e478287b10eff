"""Positions of the appends since a segment's last index entry, for consumers that keep up.

They fetch a batch that has no index entry yet. Scanning to it from the last entry takes longer the
smaller the batches are: some thirty headers for batches of one record. So the positions of these
appends are kept in memory until the next entry.
"""

from array import array
from bisect import bisect_left
from typing import Final

MAX_PLACES: Final = 4096
"""With the default `index.interval.bytes` there are never more than 67."""


class TailPositions:
    """`size` is how many bytes have been appended since the last entry."""

    __slots__ = ("_before", "_last_offsets", "_positions", "size")

    def __init__(self) -> None:
        self.size = 0
        self._last_offsets = array("q")
        self._positions = array("q")
        self._before: int | None = None
        """The last offset before these appends, if known."""

    def add(self, position: int, last_offset: int, size: int) -> None:
        """Records an append of one or more batches, the last of which ends at an offset."""
        self.size += size
        if len(self._positions) == MAX_PLACES:
            self._forget_known()
        self._last_offsets.append(last_offset)
        self._positions.append(position)

    def indexed(self) -> None:
        """Forgets all appends: the index has a new entry, from which later searches start."""
        self.size = 0
        self._forget_known()

    def cut(self) -> None:
        """Forgets all appends: the log was truncated."""
        self.indexed()
        self._before = None

    def _forget_known(self) -> None:
        if self._last_offsets:
            self._before = self._last_offsets[-1]
            del self._last_offsets[:]
            del self._positions[:]

    def position_of(self, offset: int) -> int | None:
        """The position of the append with an offset, or of the last append if the offset is after.

        Returns `None` for an offset before all known appends.
        """
        positions = self._positions
        if not positions:
            return None
        at = bisect_left(self._last_offsets, offset)
        if at == 0 and (self._before is None or offset <= self._before):
            return None
        return positions[min(at, len(positions) - 1)]
