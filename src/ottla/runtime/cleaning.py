"""Threads that compact logs, one for each running pass.

A pass is planned, and its result put in place, under the broker's lock; the work between runs
without it: in the thread itself for an embedded log, in another process (`cleaning_process`) for a
server, which must not wait for the interpreter lock. Kafka's counterpart:
`LogCleaner.CleanerThread`.
"""

import fcntl
import logging
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

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

Engine = Callable[[CleaningTask, "Throttle"], "CompactionResult"]
"""Carries out a task's plan, throttled."""

UNLIMITED = 1e15

STOP_S: Final = 30.0
"""How long a stop waits for passes that were stopped: only a disk that does not answer takes longer
than a moment.
"""

THROTTLE_RATE = struct.Struct("<d")
"""Bytes per second."""
THROTTLE_STATE = struct.Struct("<dd")
"""Bytes per second, and the monotonic time in seconds until which they are used up."""


class Throttle:
    """Limits the bytes that all passes together read and write per second, in any process.

    Those that run share the limit, however many may run. Its state is a file without a name: the
    limit, and the time until which it is used up. A child process inherits the file.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """The descriptor to pass on to a child process."""
        if self._descriptor is None:
            self._descriptor = _nameless_file()
            os.pwrite(self._descriptor, THROTTLE_STATE.pack(UNLIMITED, 0.0), 0)
        return self._descriptor

    def limit(self, bytes_per_second: float) -> None:
        """Changes the limit, also for passes that run."""
        os.pwrite(self.fileno(), THROTTLE_RATE.pack(bytes_per_second), 0)

    def __call__(self, size: int) -> None:
        descriptor = self.fileno()
        (rate,) = THROTTLE_RATE.unpack(os.pread(descriptor, THROTTLE_RATE.size, 0))
        if rate >= UNLIMITED:
            return
        with self._lock:  # a record lock excludes other processes only
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            try:
                state = os.pread(descriptor, THROTTLE_STATE.size, 0)
                rate, until = THROTTLE_STATE.unpack(state)
                until = max(until, time.monotonic()) + size / max(1.0, rate)
                os.pwrite(descriptor, THROTTLE_STATE.pack(rate, until), 0)
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN)
        time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ottla-throttle")
    import tempfile  # slow to import, and needed on other systems than Linux alone

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class ThreadEngine:
    """Compacts in the calling thread."""

    def __init__(self, file_system: FileSystem, lock: AbstractContextManager[object]) -> None:
        self._file_system = file_system
        self._lock = lock

    def __call__(self, task: CleaningTask, throttle: Throttle) -> "CompactionResult":
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
            on_bytes=throttle,
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
        self._throttle = Throttle()
        self._is_stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-cleaner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the running passes, and returns when they have ended, or are left to a disk that
        does not answer: what they have written is removed by the next start.
        """
        self._is_stopping = True
        with self._lock:
            running = list(self._running.items())
            for task, _ in running:
                task.stop()
        self._wake.set()
        until_s = time.monotonic() + STOP_S
        for task, thread in running:
            thread.join(max(0.0, until_s - time.monotonic()))
            if thread.is_alive():
                place = task.log.directory
                logger.warning("%s: left while it is compacted: the disk does not answer", place)
        if self._thread.is_alive():
            self._thread.join(max(0.0, until_s - time.monotonic()))
        if not any(thread.is_alive() for _, thread in running):
            self._throttle.close()

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
            backoff_ms = self._broker.log_jobs.cleaner.backoff_ms
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
        cleaner = self._broker.log_jobs.cleaner
        if self._running:
            self._throttle.limit(cleaner.max_bytes_per_second)
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
        cleaner = self._broker.log_jobs.cleaner
        try:
            self._throttle.limit(cleaner.max_bytes_per_second)
            result = self._engine(task, self._throttle)
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
