"""A thread for a broker's timed jobs, if no server's loop runs them."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from ottla.base.clock import Clock, read_clock
from ottla.broker.broker import Broker

INTERVAL_S = 1.0
PAUSE_S = 0.001


class Ticker:
    """Runs from `start` to `stop`, each round under the broker's lock.

    `settle` is called at the end of a round, to write out the results of the jobs.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        clock: Clock,
        lock: AbstractContextManager[object],
        settle: Callable[[], None],
    ) -> None:
        self._settle = settle
        self._broker = broker
        self._clock = clock
        self._lock = lock
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the running round is done."""
        self._is_stopping.set()
        self._thread.join()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the ticker's thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        wait_s = 0.0
        while not self._is_stopping.wait(wait_s):
            # A job that did a part of its work continues after other threads had the lock.
            wait_s = PAUSE_S if self.tick() else INTERVAL_S

    def tick(self) -> bool:
        """Runs one round; returns whether more is due now."""
        with self._lock:
            at = read_clock(self._clock)
            self._broker.scheduler.run_due(at)
            self._settle()
            due_ms = self._broker.scheduler.next_job_ms
        return due_ms is not None and due_ms <= at.monotonic_ms
