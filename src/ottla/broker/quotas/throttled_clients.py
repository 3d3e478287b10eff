"""Clients that are held back for a while because they were faster than their quota.

Kafka's counterparts: `ThrottledChannel` and its `ThrottledChannelReaper`.
"""

from heapq import heappop, heappush
from itertools import count

from ottla.broker.waiting import Waiting


class ThrottledClient(Waiting[None]):
    """One client held back until a time on the monotonic clock."""

    __slots__ = ("until_ms",)

    def __init__(self, until_ms: float) -> None:
        super().__init__()
        self.until_ms = until_ms


class ThrottledClients:
    """All of them; `heap` is empty while nobody is held back."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, ThrottledClient]] = []
        self._numbers = count()

    def add(self, until_ms: float) -> ThrottledClient:
        client = ThrottledClient(until_ms)
        heappush(self.heap, (until_ms, next(self._numbers), client))
        return client

    @property
    def next_deadline_ms(self) -> float | None:
        return self.heap[0][0] if self.heap else None

    def take_over(self, monotonic_ms: float) -> list[ThrottledClient]:
        """Those that are over; of clients that have gone, too."""
        over = []
        while self.heap and self.heap[0][0] <= monotonic_ms:
            over.append(heappop(self.heap)[2])
        return over
