"""What a broker does by itself, again and again: each job with its interval, on a clock handed in.

Kafka's counterpart: `LogManager.startup`, which schedules the same work on threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.moment import Moment


@dataclass(slots=True)
class Job:
    """Work that is due every `interval_ms`; `due_ms` is `None` until the clock is first seen."""

    interval_ms: int
    run: Callable[[Moment], None]
    due_ms: float | None = None


class Jobs:
    """All jobs. The first run of each is one interval after the clock is first seen."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def add(self, interval_ms: int, run: Callable[[Moment], None]) -> None:
        # An interval of 0 is legal in Kafka's settings; here it would leave no time for clients.
        self._jobs.append(Job(max(interval_ms, 1), run))

    @property
    def next_deadline_ms(self) -> float | None:
        """When `advance` next has work, on the monotonic clock."""
        known = (job.due_ms for job in self._jobs if job.due_ms is not None)
        return min(known, default=None)

    def advance(self, at: Moment) -> None:
        """Runs what is due."""
        for job in self._jobs:
            if job.due_ms is None:
                job.due_ms = at.monotonic_ms + job.interval_ms
            elif job.due_ms <= at.monotonic_ms:
                job.due_ms = at.monotonic_ms + job.interval_ms
                job.run(at)
