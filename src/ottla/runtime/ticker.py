"""A thread for a broker's timed jobs, if no server's loop runs them."""

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from ottla.base.clock import Clock, read_clock
from ottla.broker.broker import Broker
from ottla.runtime.thread_ends import join_in_time

INTERVAL_S = 1.0
"""The longest time between two rounds."""
PAUSE_S = 0.001
"""The shortest, in which other threads get the lock."""


class Ticker:
    """Runs from `start` to `stop`, each round under the broker's lock.

    `settle` is called at the end of a round, to write out the results of the jobs, and
    `next_due_ms` says when the next one is wanted, on the monotonic clock.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        clock: Clock,
        lock: AbstractContextManager[object],
        settle: Callable[[], None],
        next_due_ms: Callable[[], float | None],
    ) -> None:
        self._settle = settle
        self._next_due_ms = next_due_ms
        self._broker = broker
        self._clock = clock
        self._lock = lock
        self._is_stopping = False
        self._wake = threading.Event()
        self._wait_s = 0.0
        self._next_ms = -math.inf
        self._thread = threading.Thread(target=self._run, name="ottla-ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the running round is done; raises `HangingError`."""
        self._is_stopping = True
        self._wake.set()
        join_in_time(self._thread, [one.path for one in self._broker.directories])

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the ticker's thread."""
        return threading.current_thread() is self._thread

    def look_again(self) -> None:
        """Begins the next round earlier if one is wanted before; under the lock."""
        due_ms = self._next_due_ms()
        if due_ms is not None and due_ms < self._next_ms:
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._wait_s)
            self._wake.clear()
            if self._is_stopping:
                return
            self.tick()

    def tick(self) -> bool:
        """Runs one round; returns whether more is due now."""
        with self._lock:
            at = read_clock(self._clock)
            self._next_ms = -math.inf
            self._broker.scheduler.run_due(at)
            self._settle()
            due_ms = self._next_due_ms()
            wait_ms = math.inf if due_ms is None else due_ms - at.monotonic_ms
            # A job that did a part of its work continues after other threads had the lock.
            self._wait_s = min(max(wait_ms / 1000, PAUSE_S), INTERVAL_S)
            self._next_ms = at.monotonic_ms + self._wait_s * 1000
        return wait_ms <= 0
