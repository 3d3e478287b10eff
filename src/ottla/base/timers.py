"""Deadlines by key: set, moved and cancelled at any time, for machines without a clock.

Everything that waits for a time keeps its deadlines here: groups, transactions, fetches, throttled
clients, jobs, segments that are to be removed.

Moving a deadline back, which every heartbeat does, costs a dictionary entry: the heap keeps the old
one, and looks again when that has come.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


STALE_TO_KEEP: Final = 64
"""Cancelled deadlines that may lie in the heap before it is cleaned for their sake."""


class Timers(Generic[Key]):
    def __init__(self) -> None:
        self._deadlines: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._next_ms: float | None = None
        self._is_next_known = True
        """Asked before every sleep of the server, and seldom another one than before."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def set(self, key: Key, deadline_ms: float) -> None:
        """Sets a key's deadline, in place of the one it may have."""
        self._is_next_known = False
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queue(key, deadline_ms)

    def cancel(self, key: Key) -> None:
        if self._deadlines.pop(key, None) is None:
            return
        self._is_next_known = False
        if len(self._heap) > 2 * len(self._deadlines) + STALE_TO_KEEP:
            self._drop_stale()

    def _drop_stale(self) -> None:
        self._queued = dict(self._deadlines)
        self._heap = [(at_ms, next(self._numbers), key) for key, at_ms in self._queued.items()]
        heapify(self._heap)

    @property
    def next_deadline_ms(self) -> float | None:
        """When the next key is due."""
        if not self._is_next_known:
            self._next_ms = self._find_next_ms()
            self._is_next_known = True
        return self._next_ms

    def _find_next_ms(self) -> float | None:
        heap = self._heap
        while heap:
            queued_ms, _, key = heap[0]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == queued_ms:
                return queued_ms
            heappop(heap)
            if self._queued.get(key) == queued_ms:
                del self._queued[key]
                if deadline_ms is not None:
                    self._queue(key, deadline_ms)
        return None

    def deadline(self, key: Key) -> float | None:
        return self._deadlines.get(key)

    def first_due(self, monotonic_ms: float) -> Key | None:
        """The key that is due first; it stays so until it is set or cancelled."""
        if not self._heap or self._heap[0][0] > monotonic_ms:
            return None  # a queued deadline is never later than the one that holds
        next_ms = self.next_deadline_ms
        if next_ms is None or next_ms > monotonic_ms:
            return None
        return self._heap[0][2]

    def take_due(self, monotonic_ms: float) -> Key | None:
        """The key that is due first, and no longer has a deadline; `None` when none is."""
        key = self.first_due(monotonic_ms)
        if key is not None:
            self.cancel(key)
        return key

    def take_all_due(self, monotonic_ms: float) -> list[Key]:
        """All keys that are due, those first that are due first; none has a deadline any more."""
        due: list[Key] = []
        while (key := self.take_due(monotonic_ms)) is not None:
            due.append(key)
        return due

    def _queue(self, key: Key, deadline_ms: float) -> None:
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._numbers), key))
