"""Clients that wait until this broker has received the result of their change to metadata.

The controller answers once it has decided, and brokers receive the update later. A client that
continued at once would not find the topic that it has created. Kafka's counterparts:
`DelayedCreatePartitions`, `DelayedDeleteTopics`.
"""

from collections.abc import Callable

from ottla.base.timers import AllTimers, Timers
from ottla.broker.waiting.rooms import Waiting

IsSo = Callable[[], bool]


class MetadataWaits:
    """All waits. A `result` says whether the condition became true in time."""

    def __init__(self, timers: AllTimers) -> None:
        self._waiting: dict[Waiting[bool], IsSo] = {}
        self._deadlines: Timers[Waiting[bool]] = timers.new_room()

    def add(self, is_so: IsSo, deadline_ms: float) -> Waiting[bool]:
        waiting: Waiting[bool] = Waiting()
        self._waiting[waiting] = is_so
        self._deadlines.set(waiting, deadline_ms)
        return waiting

    def take_known(self) -> list[Waiting[bool]]:
        known = [one for one, is_so in self._waiting.items() if is_so()] if self._waiting else []
        for one in known:
            self._deadlines.cancel(one)
            self._end(one, True)
        return known

    def take_due(self, now_ms: float) -> list[Waiting[bool]]:
        due = self._deadlines.take_all_due(now_ms)
        for one in due:
            self._end(one, False)
        return due

    def _end(self, one: Waiting[bool], result: bool) -> None:
        one.result = result
        del self._waiting[one]
