"""The ranges of a file that have been checked; adjoining ranges are merged."""

from bisect import bisect_left, bisect_right

from ottla.base.errors import CorruptionError


class CheckedRanges:
    """Ranges of positions in a file, ascending and disjoint."""

    __slots__ = ("_ends", "_starts", "errors")

    def __init__(self) -> None:
        self.errors: dict[int, CorruptionError] = {}
        """The error at the end of a range, by position, if an error ended the range."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    def end_after(self, position: int) -> int | None:
        """The end of the range that begins before a position and reaches it; `None` without one."""
        index = bisect_left(self._starts, position) - 1
        if index >= 0 and self._ends[index] >= position:
            return self._ends[index]
        return None

    def add(self, start: int, end: int) -> None:
        """Adds a range, merged with all ranges that it overlaps or touches."""
        first = bisect_left(self._ends, start)
        until = bisect_right(self._starts, end)
        if first < until:
            start = min(start, self._starts[first])
            end = max(end, self._ends[until - 1])
        self._starts[first:until] = [start]
        self._ends[first:until] = [end]
