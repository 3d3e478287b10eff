"""What the active controller does from time to time by itself.

Kafka's counterpart: `PeriodicTaskControlManager`.
"""

from collections.abc import Callable
from math import inf
from typing import NamedTuple


class Duty(NamedTuple):
    """`interval_ms` is infinite for what is not done; `deed` says whether there is more to do."""

    interval_ms: Callable[[], float]
    deed: Callable[[], bool]


class Duties:
    """Each is done for the first time an interval after the start."""

    def __init__(self, duties: list[Duty], now_ms: float) -> None:
        self._due_ms = {duty: now_ms + duty.interval_ms() for duty in duties}

    @property
    def deadline_ms(self) -> float:
        return min(self._due_ms.values(), default=inf)

    def advance(self, now_ms: float) -> None:
        """Does what is due; what has more to do is done again at once, after others had a turn."""
        for duty, due_ms in self._due_ms.items():
            if due_ms <= now_ms:
                has_more = duty.deed()
                self._due_ms[duty] = now_ms if has_more else now_ms + duty.interval_ms()
