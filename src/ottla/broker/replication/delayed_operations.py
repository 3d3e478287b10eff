"""Client operations that wait until replicas have reached an offset.

Kafka's counterpart: `DelayedOperationPurgatory`, for one partition.
"""

from bisect import bisect_right, insort
from collections.abc import Hashable
from operator import attrgetter

from ottla.base.values import dataclass

by_offset = attrgetter("required_offset")


@dataclass(frozen=True, slots=True)
class Delayed:
    required_offset: int
    pending_id: Hashable
    deadline_ms: float


class DelayedOperations:
    """Operations in the order of their offsets; at the same offset the oldest is first.

    `take_due` is called at the deadlines, which `Replicas` keeps for each request.
    """

    def __init__(self) -> None:
        self._waiting: list[Delayed] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, pending_id: Hashable, required_offset: int, deadline_ms: float) -> None:
        insort(self._waiting, Delayed(required_offset, pending_id, deadline_ms), key=by_offset)

    def take_reached(self, offset: int) -> list[Delayed]:
        count = bisect_right(self._waiting, offset, key=by_offset)
        reached = self._waiting[:count]
        del self._waiting[:count]
        return reached

    def take_due(self, now_ms: float) -> list[Delayed]:
        due = [one for one in self._waiting if one.deadline_ms <= now_ms]
        if due:
            self._waiting = [one for one in self._waiting if one.deadline_ms > now_ms]
        return due

    def take_all(self) -> list[Delayed]:
        waiting, self._waiting = self._waiting, []
        return waiting
