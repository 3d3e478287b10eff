"""Periodic jobs of a broker, each with its interval, on a clock that is passed in.

No job blocks clients for long: a job with much to do does a part of it, reports that more is left,
and is called again in the next round. Kafka's counterpart: `LogManager.startup`, which schedules
the same work on threads.
"""

import logging
from collections.abc import Callable

from ottla.base.errors import OttlaError
from ottla.base.failures import Failures
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass

logger = logging.getLogger(__name__)

Work = Callable[[Timestamps], bool | None]
"""Returns whether more is left to do."""


@dataclass(slots=True, eq=False)
class Job:
    """Work that is due every `interval_ms()`; `name` is for the log."""

    name: str
    interval_ms: Callable[[], int]
    initial_ms: Callable[[], int]
    run: Work


class Jobs:
    """All jobs. Intervals are read at each run, since settings change."""

    def __init__(self, timers: AllTimers) -> None:
        self._new: list[Job] = []
        """Jobs that were added since the last `advance`."""
        self._due: Timers[Job] = timers.new_room()
        self._failures = Failures()

    def add(
        self,
        interval_ms: Callable[[], int],
        run: Work,
        *,
        initial_ms: Callable[[], int] | None = None,
    ) -> None:
        """Adds a job; its first run is `initial_ms` (by default its interval) after the next
        `advance`.
        """
        name = getattr(run, "__qualname__", type(run).__name__)
        self._new.append(Job(name, interval_ms, initial_ms or interval_ms, run))

    def advance(self, at: Timestamps) -> None:
        """Runs the jobs that are due.

        A job that fails ends neither the others nor the broker; it waits longer after each failure.
        """
        for job in self._new:
            self._due.set(job, at.monotonic_ms + _at_least_one(job.initial_ms()))
        self._new.clear()
        due = self._due.take_all_due(at.monotonic_ms)
        for job in due:
            self._due.set(job, at.monotonic_ms + _at_least_one(job.interval_ms()))
            try:
                has_more = job.run(at)
            except Exception as error:
                self._failed(job, error, at)
                continue
            self._failures.over(job)
            if has_more:
                self._due.set(job, at.monotonic_ms)

    def _failed(self, job: Job, error: Exception, at: Timestamps) -> None:
        interval_ms = _at_least_one(job.interval_ms())
        if self._failures.note(job, error, at.monotonic_ms, interval_ms):
            is_ours = not isinstance(error, OttlaError)
            logger.error(
                "%s failed, and will be tried again: %s", job.name, error, exc_info=is_ours
            )
        retry_ms = self._failures.retry_ms(job)
        if retry_ms is not None:
            self._due.set(job, retry_ms)


def _at_least_one(interval_ms: int) -> int:
    """An interval of 0 is valid in Kafka's settings; here it would leave no time for clients."""
    return max(interval_ms, 1)
