"""Deadlines by key: set, moved and cancelled at any time, for machines without a clock.

Moving a deadline back, which every heartbeat does, costs a dictionary entry: the heap keeps the old
one, and looks again when that has come.
"""

from collections.abc import Hashable
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Due(Enum):
    """What a deadline of a group is for."""

    SESSION = "a member's session"
    REVOCATION = "a member's giving up of partitions"
    JOIN = "the joining of a group's members"
    SYNC = "their syncing"
    EXPIRY = "looking for expired offsets"

    __hash__ = object.__hash__  # that of `Enum` is a function of Python, called by each look-up


class TimerKey(NamedTuple):
    due: Due
    group_id: str = ""
    member_id: str = ""


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
        self._is_next_known = False
        self._deadlines.pop(key, None)

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

    def _queue(self, key: Key, deadline_ms: float) -> None:
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._numbers), key))
