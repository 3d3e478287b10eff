"""A thread for the fsyncs that rolls and `flush.ms` make due, which run without the broker's lock.

fsync releases the interpreter lock, so the server's loop runs meanwhile. A failed fsync takes the
directory offline and is never retried.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from time import thread_time
from typing import Final

from ottla.base.clock import Clock
from ottla.base.failures import Failures
from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.maintenance import FlushPlan

logger = logging.getLogger(__name__)

INTERVAL_S = 0.2

IDLE_SHARE: Final = 100
"""How many times as long as a round that found nothing the pause after it is, so that an idle
broker of many partitions stays idle; at most `LONGEST_S`.
"""
LONGEST_S: Final = 1.0

STOP_S: Final = 30.0
"""How long a stop waits for a sync. Other directories are closed then, which takes time too, and
service managers kill after 90 s.
"""

Plans = list[tuple[LogDirectory, FlushPlan]]


class Flusher:
    """Runs from `start` to `stop`. Everything but the fsyncs runs under the broker's lock.

    `on_failure` is called when a failed flush has taken a directory offline.
    """

    def __init__(
        self,
        broker: Broker,
        file_system: FileSystem,
        *,
        clock: Clock,
        lock: AbstractContextManager[object],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._file_system = file_system
        self._clock = clock
        self._lock = lock
        self._on_failure = on_failure
        self._failures = Failures()
        self._is_stopping = threading.Event()
        self._syncing: LogDirectory | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-flusher", daemon=True)

    def start(self) -> None:
        self._broker.log_jobs.moves.leave_flushing()
        self._thread.start()

    def stop(self) -> None:
        """Returns once the running flush is done. A directory whose disk does not answer goes
        offline: it is left as by a crash, without a clean-shutdown file.
        """
        self._is_stopping.set()
        self._thread.join(STOP_S)
        directory = self._syncing
        if self._thread.is_alive() and directory is not None:
            with self._lock:
                directory.health.fail(OSError(f"a sync has not returned for {STOP_S:g} s"))

    def _run(self) -> None:
        wait_s = INTERVAL_S
        while not self._is_stopping.wait(wait_s):
            wait_s = self.run_once()

    def run_once(self) -> float:
        """One round; returns how long to wait for the next one in seconds.

        An error must not end the thread, which nobody would notice.
        """
        begun_s = thread_time()
        try:
            has_flushed = self.flush_due()
        except Exception as error:
            now_ms = self._clock.monotonic_ms()
            if self._failures.note(None, error, now_ms, INTERVAL_S * 1000):
                logger.exception("flushing failed, and will be tried again")
            return ((self._failures.retry_ms(None) or now_ms) - now_ms) / 1000
        self._failures.over(None)
        if has_flushed:
            return INTERVAL_S
        return max(INTERVAL_S, min(IDLE_SHARE * (thread_time() - begun_s), LONGEST_S))

    def flush_due(self) -> bool:
        """One round: every flush that is due now; returns whether there was any."""
        has_flushed = False
        steps = self._broker.log_jobs.flushes.due_in_steps(self._clock.monotonic_ms())
        while (plans := self._next(steps)) is not None:
            has_flushed |= bool(plans)
            self._carry_out(plans)
        return has_flushed

    def _next(self, steps: Iterator[Plans]) -> Plans | None:
        with self._lock:
            return next(steps, None)

    def _carry_out(self, plans: Plans) -> None:
        for directory, plan in plans:
            self._syncing = directory
            try:
                plan.carry_out(self._file_system)
            except OSError as error:
                with self._lock:
                    directory.health.fail(error)
                self._on_failure()
                continue
            finally:
                self._syncing = None
            with self._lock:
                if not directory.is_offline:  # as when it returns after the stop
                    plan.owner.finish_flush(plan, self._clock.monotonic_ms())
