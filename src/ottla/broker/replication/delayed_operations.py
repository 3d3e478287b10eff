"""Operations of clients that wait until replicas have come to an offset.

Kafka's counterpart: `DelayedOperationPurgatory`, of one partition.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count


@dataclass(frozen=True, slots=True, order=True)
class Delayed:
    required_offset: int
    number: int
    pending_id: Hashable = field(compare=False)
    deadline_ms: float = field(compare=False)


class DelayedOperations:
    """In the order of their offsets, and of those at one offset the oldest first."""

    def __init__(self) -> None:
        self._waiting: list[Delayed] = []
        self._numbers = count()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, pending_id: Hashable, required_offset: int, deadline_ms: float) -> None:
        delayed = Delayed(required_offset, next(self._numbers), pending_id, deadline_ms)
        heappush(self._waiting, delayed)

    def take_reached(self, offset: int) -> list[Delayed]:
        reached = []
        while self._waiting and self._waiting[0].required_offset <= offset:
            reached.append(heappop(self._waiting))
        return reached

    def take_due(self, now_ms: float) -> list[Delayed]:
        due = [one for one in self._waiting if one.deadline_ms <= now_ms]
        if due:
            self._waiting = [one for one in self._waiting if one.deadline_ms > now_ms]
            heapify(self._waiting)
        return due

    def take_all(self) -> list[Delayed]:
        waiting, self._waiting = self._waiting, []
        return sorted(waiting)
