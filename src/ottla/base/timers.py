"""Deadlines by key: set, moved and cancelled at any time, for machines without a clock.

Everything that waits for a time keeps its deadlines here: groups, transactions, fetches, throttled
clients, jobs, segments that are to be removed. Each takes what is due from a room of its own
(`new_room`), and the shell that sleeps asks only the timers that all the rooms belong to.

Moving a deadline back, which every heartbeat does, costs a dictionary entry: the heap keeps the old
one, and looks again when that has come.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEXT: Final = "next"
"""The key of a room that has only one deadline."""

STALE_TO_KEEP: Final = 64
"""Cancelled deadlines that may lie in the heap before it is cleaned for their sake."""


class Timers(Generic[Key]):
    """`whole` are the timers that a room belongs to."""

    def __init__(self, whole: "AllTimers | None" = None) -> None:
        self._whole = whole
        self._changed: set[Any] = set()
        """Rooms whose first deadline may be another than the one that is known here."""
        self._deadlines: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._next_ms: float | None = None
        self._is_next_known = True
        """Asked before every sleep of the server, and seldom another one than before."""

    def new_room(self: "AllTimers") -> "Timers[Any]":
        """Timers whose first deadline counts here too."""
        return Timers(self)

    def close(self) -> None:
        """The deadlines of a room count no longer, nor those that are still to be set."""
        if self._whole is not None:
            self._whole._changed.discard(self)
            self._whole.cancel(self)
            self._whole = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def set(self, key: Key, deadline_ms: float) -> None:
        """Sets a key's deadline, in place of the one it may have."""
        self._forget_next()
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queue(key, deadline_ms)

    def cancel(self, key: Key) -> None:
        if self._deadlines.pop(key, None) is None:
            return
        self._forget_next()
        if len(self._heap) > 2 * len(self._deadlines) + STALE_TO_KEEP:
            self._drop_stale()

    def _forget_next(self) -> None:
        if self._is_next_known:
            self._is_next_known = False
            if self._whole is not None:
                self._whole._changed.add(self)
                self._whole._forget_next()

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
        while self._changed:
            self._take_first_of(self._changed.pop())
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

    def _take_first_of(self, room: Any) -> None:
        deadline_ms: float | None = room.next_deadline_ms
        if deadline_ms is None:
            self.cancel(room)
        elif deadline_ms != self._deadlines.get(room):
            self.set(room, deadline_ms)

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


AllTimers = Timers[Timers[Any]]
"""One for all that a shell waits for."""
