"""Which bytes of a file have been looked at: ranges of positions that grow together."""

from bisect import bisect_left, bisect_right

from ottla.base.errors import CorruptionError


class CheckedRanges:
    """Ranges of positions in a file, ascending and apart."""

    __slots__ = ("_ends", "_starts", "errors")

    def __init__(self) -> None:
        self.errors: dict[int, CorruptionError] = {}
        """What is wrong where a range ends, if that is why it ends there."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    def end_after(self, position: int) -> int | None:
        """Where the range ends that begins before a position and reaches it."""
        index = bisect_left(self._starts, position) - 1
        if index >= 0 and self._ends[index] >= position:
            return self._ends[index]
        return None

    def add(self, start: int, end: int) -> None:
        first = bisect_left(self._ends, start)
        until = bisect_right(self._starts, end)
        if first < until:
            start = min(start, self._starts[first])
            end = max(end, self._ends[until - 1])
        self._starts[first:until] = [start]
        self._ends[first:until] = [end]
