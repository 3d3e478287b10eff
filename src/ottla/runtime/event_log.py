"""Logs events (`base/events.py`) at a limited rate.

Of each kind of event at most `MAX_LINES` are logged in an interval; further ones are counted and
summed up in one line at its end. So a client that connects a thousand times a second costs a count
each. Rolls and deletions of segments, which can be numerous, are only summed up (`totals`).
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.base.events import Event, kind_of

logger = logging.getLogger("ottla.events")

INTERVAL_S = 10.0
MAX_LINES = 20
"""Events of one kind that are logged one by one in an interval."""


class EventLog:
    """Called with each event, from any thread. `counts` are of all events since the start.

    `start` starts the thread that sums up.
    """

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()
        self._totals: Callable[[], dict[str, int]] = dict
        self._clock = clock
        self._logged: Counter[str] = Counter()
        self._suppressed: Counter[str] = Counter()
        self._since_ms = clock.monotonic_ms()
        self._last_totals: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-event-log", daemon=True)

    def __call__(self, event: Event) -> None:
        kind = kind_of(event)
        with self._lock:
            self.counts[kind] += 1
            if not logger.isEnabledFor(logging.INFO):
                return
            if self._logged[kind] == MAX_LINES:
                self._suppressed[kind] += 1
                return
            self._logged[kind] += 1
        logger.info("%s", event.message, extra={"event": event})

    def start(self, totals: Callable[[], dict[str, int]]) -> None:
        """`totals` returns counters by name, whose growth is logged too."""
        self._totals = totals
        self._last_totals = totals()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.sum_up()

    def sum_up(self) -> None:
        """Ends an interval: logs how many events were skipped, and the growth of the totals."""
        with self._lock:
            suppressed, self._suppressed = self._suppressed, Counter()
            self._logged.clear()
            now_ms = self._clock.monotonic_ms()
            seconds, self._since_ms = (now_ms - self._since_ms) / 1000, now_ms
        for kind, count in sorted(suppressed.items()):
            logger.info("%d more in %.0f s: %s", count, seconds, kind.replace("_", " "))
        totals = self._totals()
        grown = {
            name: value - self._last_totals.get(name, 0)
            for name, value in totals.items()
            if value > self._last_totals.get(name, 0)
        }
        self._last_totals = totals
        if grown:
            text = ", ".join(f"{name}: {count}" for name, count in grown.items())
            logger.info("in %.0f s: %s", seconds, text)

    def _run(self) -> None:
        while not self._is_stopping.wait(INTERVAL_S):
            self.sum_up()
