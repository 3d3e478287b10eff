"""Answers that come later, and the fetches among them: those that found too little and wait.

The room of the fetches is a machine without a clock: whoever holds it asks for `next_deadline_ms`,
calls `advance` when that has come, and `wake` when a partition has grown. Deadlines are on the
monotonic clock, so that setting the wall clock back keeps nobody waiting. Kafka's counterparts:
`DelayedFetch` and the purgatory that keeps it.
"""

from collections.abc import Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

Query = TypeVar("Query")
Result = TypeVar("Result")

STALE_TO_KEEP: Final = 64
"""Ended fetches that may lie in the heap of deadlines before it is cleaned for their sake."""


class Waiting(Generic[Result]):
    """Whoever asked waits; when the broker hands this back (`take_answered`), `result` is there."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: Result | None = None


class WaitingFetch(Waiting[Result], Generic[Query, Result]):
    """One fetch that waits: what it asks for, and what it gets once it is over.

    `keys` are the partitions whose growth may end it.
    """

    __slots__ = ("deadline_ms", "is_over", "is_woken", "keys", "query")

    def __init__(self, query: Query, keys: Sequence[Hashable], deadline_ms: float) -> None:
        super().__init__()
        self.query = query
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.is_woken = False
        self.is_over = False


class WaitingRoom(Generic[Query, Result]):
    """All waiting fetches, found by partition and by deadline."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[WaitingFetch[Query, Result], None]] = {}
        self._deadlines: list[tuple[float, int, WaitingFetch[Query, Result]]] = []
        self._numbers = count()
        self._woken: list[WaitingFetch[Query, Result]] = []
        self._waiting_count = 0

    def __len__(self) -> int:
        return self._waiting_count

    def add(self, fetch: WaitingFetch[Query, Result]) -> None:
        for key in fetch.keys:
            self._by_key.setdefault(key, {})[fetch] = None
        heappush(self._deadlines, (fetch.deadline_ms, next(self._numbers), fetch))
        self._waiting_count += 1

    def wake(self, key: Hashable) -> None:
        """A partition has grown, or is gone: its fetches look again."""
        if not self._by_key:
            return
        for fetch in self._by_key.get(key, ()):
            if not fetch.is_woken:
                fetch.is_woken = True
                self._woken.append(fetch)

    @property
    def has_woken(self) -> bool:
        return bool(self._woken)

    def take_woken(self) -> Iterable[WaitingFetch[Query, Result]]:
        """Those whose partitions have grown since the last call; they wait on until `end`."""
        woken, self._woken = self._woken, []
        for fetch in woken:
            fetch.is_woken = False
        return [fetch for fetch in woken if not fetch.is_over]

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` will next have something to return."""
        deadlines = self._deadlines
        if not deadlines:
            return None
        while deadlines and deadlines[0][2].is_over:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def advance(self, now_ms: float) -> list[WaitingFetch[Query, Result]]:
        """Those whose time is up at `now_ms`; the caller gives each its result and ends it."""
        expired = []
        while (deadline_ms := self.next_deadline_ms) is not None and deadline_ms <= now_ms:
            expired.append(heappop(self._deadlines)[2])
        return expired

    def end(self, fetch: WaitingFetch[Query, Result]) -> None:
        """Takes a fetch out: it has its answer, or nobody wants it any more."""
        if fetch.is_over:
            return
        fetch.is_over = True
        self._waiting_count -= 1
        for key in fetch.keys:
            fetches = self._by_key.get(key)
            if fetches is not None:
                fetches.pop(fetch, None)
                if not fetches:
                    del self._by_key[key]
        if len(self._deadlines) > 2 * self._waiting_count + STALE_TO_KEEP:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
            heapify(self._deadlines)
