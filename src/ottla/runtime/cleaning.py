"""Threads that compact logs, one for each running pass.

A pass is planned, and its result put in place, under the broker's lock; the work between runs
without it: in the thread itself for an embedded log, in another process (`cleaning_process`) for a
server, which must not wait for the interpreter lock. Kafka's counterpart:
`LogCleaner.CleanerThread`.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.clock import Clock, read_clock
from ottla.base.errors import StorageError
from ottla.base.failures import Failures
from ottla.base.files import FileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.runtime.interrupts import HeldInterrupts

if TYPE_CHECKING:
    from ottla.storage.compaction.compaction import CompactionResult

logger = logging.getLogger(__name__)

Engine = Callable[[CleaningTask, float], "CompactionResult"]
"""Carries out a task's plan, at most at the given bytes per second."""

UNLIMITED = 1e15


class Throttle:
    """Sleeps to limit the bytes that are read and written per second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._started = time.monotonic()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        self._bytes += size
        if self._bytes_per_second < UNLIMITED:
            due = self._started + self._bytes / max(1.0, self._bytes_per_second)
            time.sleep(max(0.0, due - time.monotonic()))


class ThreadEngine:
    """Compacts in the calling thread."""

    def __init__(self, file_system: FileSystem, lock: AbstractContextManager[object]) -> None:
        self._file_system = file_system
        self._lock = lock

    def __call__(self, task: CleaningTask, bytes_per_second: float) -> "CompactionResult":
        # Imported here, since an embedded log may never have anything to compact.
        from ottla.storage.compaction.compaction import StoppedError, Surroundings, compact
        from ottla.storage.compaction.key_filter import new_key_filter

        def check() -> None:
            if task.is_stopped:
                raise StoppedError(f"the compaction of {task.log.name} was stopped")

        def while_making() -> AbstractContextManager[object]:
            return _Making(self._lock, check)

        plan = task.plan
        around = Surroundings(
            file_system=self._file_system,
            on_bytes=Throttle(bytes_per_second),
            check=check,
            while_making=while_making,
        )
        return compact(plan, new_key_filter(plan.map_bytes, plan.load_factor), around)


class _Making:
    """Holds the lock, unless the task was stopped: its log may be deleted meanwhile."""

    def __init__(self, lock: AbstractContextManager[object], check: Callable[[], None]) -> None:
        self._lock = lock
        self._check = check

    def __enter__(self) -> None:
        self._lock.__enter__()
        try:
            self._check()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)


class Cleaning:
    """Runs from `start` to `stop`, up to `log.cleaner.threads` passes at a time."""

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        *,
        clock: Clock,
        lock: AbstractContextManager[object],
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._clock = clock
        self._lock = lock
        self._running: dict[CleaningTask, threading.Thread] = {}
        self._failures = Failures()
        self._is_stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-cleaner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the running passes, and returns when they have ended."""
        self._is_stopping = True
        with self._lock:
            running = list(self._running.items())
            for task, _ in running:
                task.stop()
        self._wake.set()
        for _, thread in running:
            thread.join()
        if self._thread.is_alive():
            self._thread.join()

    def look_again(self) -> None:
        """Starts what is due without waiting for `log.cleaner.backoff.ms`."""
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopping:
            # The end of a pass wakes this thread too: another may be due.
            self._wake.wait(max(self._one_round(), 10) / 1000)
            self._wake.clear()

    def _one_round(self) -> float:
        """Starts what is due; returns how long to wait for the next round in ms.

        An error must not end the thread, which nobody would notice.
        """
        with self._lock:
            backoff_ms = self._broker.cleaner.backoff_ms
            try:
                self._start_due()
            except Exception as error:
                now_ms = self._clock.monotonic_ms()
                if self._failures.note(None, error, now_ms, backoff_ms):
                    logger.exception("the cleaner failed, and will try again")
                return (self._failures.retry_ms(None) or now_ms) - now_ms
            self._failures.over(None)
            return backoff_ms

    def _start_due(self) -> None:
        cleaner = self._broker.cleaner
        while len(self._running) < cleaner.thread_count and not self._is_stopping:
            task = cleaner.next_task(read_clock(self._clock))
            if task is None:
                return
            name = f"ottla-cleaner-{task.log.name}"
            thread = threading.Thread(target=self.carry_out, args=[task], name=name, daemon=True)
            self._running[task] = thread
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                del self._running[task]
                cleaner.fail(task, error, read_clock(self._clock))

    def carry_out(self, task: CleaningTask) -> None:
        """Runs one pass, and reports its result or error to the cleaner."""
        cleaner = self._broker.cleaner
        with self._lock:
            share = cleaner.max_bytes_per_second / max(1, cleaner.thread_count)
        try:
            result = self._engine(task, share)
        except Exception as error:
            self._end(task, partial(cleaner.fail, task, error))
        except BaseException as error:
            self._end(task, partial(cleaner.fail, task, error))
            raise  # Ctrl-C, when the main thread compacts
        else:
            self._end(task, partial(cleaner.finish, task, result))

    def _end(self, task: CleaningTask, ending: Callable[[Timestamps], None]) -> None:
        with HeldInterrupts(), self._lock:
            self._running.pop(task, None)
            with suppress(StorageError):  # Logged where the directory went offline.
                ending(read_clock(self._clock))
        self._wake.set()
