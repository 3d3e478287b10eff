"""Deadlines by key, which can be set, moved and cancelled, for code without a clock.

Groups, transactions, fetches, throttled clients, jobs and segments to be removed keep their
deadlines here. Each takes due keys from timers of its own (`new_room`); the server's loop, which
sleeps, asks only the timers to which these rooms belong.

Moving a deadline back, as every heartbeat does, costs one dictionary entry: the heap keeps the old
entry, and the new deadline is looked up when that expires.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEXT: Final = "next"
"""The key for rooms with a single deadline."""

STALE_TO_KEEP: Final = 64
"""The number of cancelled entries in the heap below which it is not cleaned."""


class Timers(Generic[Key]):
    """Deadlines by key. `whole` are the timers to which a room belongs."""

    def __init__(self, whole: "AllTimers | None" = None) -> None:
        self._whole = whole
        self._changed: set[Any] = set()
        """Rooms whose first deadline may have changed."""
        self._deadlines: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._next_ms: float | None = None
        self._is_next_known = True
        """The next deadline is read before every sleep of the server, and seldom changes between
        reads.
        """

    def new_room(self: "AllTimers") -> "Timers[Any]":
        """Timers whose first deadline is also a deadline of these timers."""
        return Timers(self)

    def close(self) -> None:
        """Detaches a room: its deadlines, and any set later, no longer count."""
        if self._whole is not None:
            self._whole._changed.discard(self)
            self._whole.cancel(self)
            self._whole = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: Key) -> bool:
        return key in self._deadlines

    def set(self, key: Key, deadline_ms: float) -> None:
        """Sets a key's deadline, replacing an earlier one."""
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
        """The earliest deadline; `None` if there is none."""
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
        """The first due key, which stays due until set or cancelled; `None` if none is due."""
        if not self._heap or self._heap[0][0] > monotonic_ms:
            return None  # a queued deadline is never later than the actual one
        next_ms = self.next_deadline_ms
        if next_ms is None or next_ms > monotonic_ms:
            return None
        return self._heap[0][2]

    def take_due(self, monotonic_ms: float) -> Key | None:
        """Removes and returns the first due key; `None` if none is due."""
        key = self.first_due(monotonic_ms)
        if key is not None:
            self.cancel(key)
        return key

    def take_all_due(self, monotonic_ms: float) -> list[Key]:
        """Removes and returns all due keys, in order of their deadlines."""
        due: list[Key] = []
        while (key := self.take_due(monotonic_ms)) is not None:
            due.append(key)
        return due

    def _queue(self, key: Key, deadline_ms: float) -> None:
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._numbers), key))


AllTimers = Timers[Timers[Any]]
"""The timers of a server's loop: their keys are rooms."""
