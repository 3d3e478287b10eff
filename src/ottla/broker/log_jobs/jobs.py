"""What a broker does by itself, again and again: each job with its interval, on a clock handed in.

No job holds clients up for long: one with much to do does a part of it, says so, and is called
again in the next round. Kafka's counterpart: `LogManager.startup`, which schedules the same work
on threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.timestamps import Timestamps

Work = Callable[[Timestamps], bool | None]
"""Returns whether there is more to do at once."""


@dataclass(slots=True)
class Job:
    """Work that is due every `interval_ms()`; `due_ms` is `None` until the clock is first seen."""

    interval_ms: Callable[[], int]
    initial_ms: Callable[[], int]
    run: Work
    due_ms: float | None = None


class Jobs:
    """All jobs. Intervals are asked for anew at each run, since settings change."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._next_ms: float | None = None

    def add(
        self,
        interval_ms: Callable[[], int],
        run: Work,
        *,
        initial_ms: Callable[[], int] | None = None,
    ) -> None:
        """A job whose first run is `initial_ms` (an interval by default) after the clock is first
        seen."""
        self._jobs.append(Job(interval_ms, initial_ms or interval_ms, run))
        self._next_ms = None

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` next has work, on the monotonic clock; `None` before it has seen that."""
        return self._next_ms

    def advance(self, at: Timestamps) -> None:
        """Runs what is due."""
        if self._next_ms is not None and at.monotonic_ms < self._next_ms:
            return
        for job in self._jobs:
            if job.due_ms is None:
                job.due_ms = at.monotonic_ms + _at_least_one(job.initial_ms())
            elif job.due_ms <= at.monotonic_ms:
                has_more = job.run(at)
                wait_ms = 0 if has_more else _at_least_one(job.interval_ms())
                job.due_ms = at.monotonic_ms + wait_ms
        known = [job.due_ms for job in self._jobs if job.due_ms is not None]
        self._next_ms = min(known, default=None)


def _at_least_one(interval_ms: int) -> int:
    """An interval of 0 is legal in Kafka's settings; here it would leave no time for clients."""
    return max(interval_ms, 1)
