"""Deadlines by key, which can be set, moved and cancelled, for code without a clock.

Groups, transactions, fetches, throttled clients, jobs and segments to be removed keep their
deadlines here. Each takes due keys from timers of its own (`new_room`); the server's loop, which
sleeps, asks only the timers to which these rooms belong.

Moving a deadline back, as every heartbeat does, costs one dictionary entry: the heap keeps the old
entry, and the new deadline is looked up when that expires.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEXT: Final = "next"
"""The key for rooms with a single deadline."""

STALE_TO_KEEP: Final = 64
"""The number of cancelled entries in the heap below which it is not cleaned."""

MOVED_AT_ONCE: Final = 4
"""Entries that a cancellation cleans."""

PASSED_AT_ONCE: Final = 256
"""Entries that were moved or cancelled of which the next deadline is looked for behind. Thousands
may be of one time: that of sessions which began together.
"""


class Timers(Generic[Key]):
    """Deadlines by key. `whole` are the timers to which a room belongs."""

    def __init__(self, whole: "AllTimers | None" = None) -> None:
        self._whole = whole
        self._changed: set[Any] = set()
        """Rooms whose first deadline may have changed."""
        self._deadlines: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._unclean: list[tuple[float, int, Key]] = []
        """An earlier heap, whose valid entries move to the other one a few at a time."""
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
        if self._unclean:
            self._clean_some()
        elif len(self._heap) > 2 * len(self._deadlines) + STALE_TO_KEEP:
            self._unclean, self._heap = self._heap, []

    def _forget_next(self) -> None:
        if self._is_next_known:
            self._is_next_known = False
            if self._whole is not None:
                self._whole._changed.add(self)
                self._whole._forget_next()

    def _clean_some(self) -> None:
        """What is left without its last entries is still a heap."""
        for entry in self._unclean[: -MOVED_AT_ONCE - 1 : -1]:
            queued_ms, _, key = entry
            if self._queued.get(key) == queued_ms:
                if key in self._deadlines:
                    heappush(self._heap, entry)
                else:
                    del self._queued[key]
        del self._unclean[-MOVED_AT_ONCE:]

    def _first_heap(self) -> list[tuple[float, int, Key]]:
        """The one that has the first entry."""
        unclean, heap = self._unclean, self._heap
        return unclean if unclean and (not heap or unclean[0] < heap[0]) else heap

    @property
    def next_deadline_ms(self) -> float | None:
        """The earliest deadline; `None` if there is none.

        It may be an earlier time: a call looks only behind so many entries that are not valid.
        """
        if not self._is_next_known:
            self._next_ms = self._find_next_ms()
            self._is_next_known = True
        return self._next_ms

    def _find_next_ms(self) -> float | None:
        while self._changed:
            self._take_first_of(self._changed.pop())
        for _ in range(PASSED_AT_ONCE):
            heap = self._first_heap()
            if not heap:
                return None
            queued_ms, _, key = heap[0]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == queued_ms:
                return queued_ms
            heappop(heap)
            if self._queued.get(key) == queued_ms:
                del self._queued[key]
                if deadline_ms is not None:
                    self._queue(key, deadline_ms)
        heap = self._first_heap()
        return heap[0][0] if heap else None

    def _take_first_of(self, room: Any) -> None:
        deadline_ms: float | None = room.next_deadline_ms
        if deadline_ms is None:
            self.cancel(room)
        elif deadline_ms != self._deadlines.get(room):
            self.set(room, deadline_ms)

    def deadline(self, key: Key) -> float | None:
        return self._deadlines.get(key)

    def first_due(self, monotonic_ms: float) -> Key | None:
        """The first due key, which stays due until set or cancelled; `None` if none is due, or if
        it is to be looked for again, as `next_deadline_ms` says.
        """
        heap = self._first_heap()
        if not heap or heap[0][0] > monotonic_ms:
            return None  # a queued deadline is never later than the actual one
        next_ms = self.next_deadline_ms
        if next_ms is None or next_ms > monotonic_ms:
            return None
        queued_ms, _, key = self._first_heap()[0]
        if self._deadlines.get(key) != queued_ms:
            self._forget_next()  # the next call looks further
            return None
        return key

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
