"""Threads that copy segments to the remote tier, and delete them there.

One thread asks, under the broker's lock, what is due; others carry out the deeds without it: reads
of local files, requests to the store, fsyncs. There are as many as may be needed at once, and no
more than the settings allow. Kafka's counterpart: the pools of threads of `RemoteLogManager`.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from time import perf_counter, sleep
from typing import Final, Protocol

from ottla.base.clock import Clock, read_clock
from ottla.base.failures import Failures
from ottla.base.turns import CURRENT, Turn
from ottla.broker.broker import Broker
from ottla.broker.tiering.tier_jobs import Job, TierJobs

logger = logging.getLogger(__name__)

MAX_WAIT_S: Final = 1.0
"""How long new work may wait until it is seen."""

RETRY_MS: Final = 1000.0

STOP_S: Final = 5.0
"""How long a stop waits for requests to the store: a dead one may answer after minutes only. What
is not finished is deleted after the next start.
"""

SLICE_S: Final = 0.002
PAUSE_S: Final = 0.0005
MOST: Final = 1 << 31


class ReleasableLock(AbstractContextManager[object], Protocol):
    """A reentrant lock."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


class TierWorker:
    """Runs from `start` to `stop`; does nothing for a broker without a tier.

    `on_change` is called when others may wait for what was changed.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        clock: Clock,
        lock: ReleasableLock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._lock = lock
        self._on_change = on_change
        self._failures = Failures()
        self._is_stopping = False
        self._wake = threading.Event()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._idle_count = 0
        self._telling = threading.Lock()
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        if self._jobs is not None:
            self._start_thread(self._run, "ottla-tier")

    def stop(self) -> None:
        """Ends the jobs, and waits some time for running requests."""
        with self._lock:
            self._is_stopping = True
            if self._broker.remote_logs is not None:
                self._broker.remote_logs.close()
        self._wake.set()
        for _ in self.threads:
            self._queue.put(None)
        until_s = perf_counter() + STOP_S
        for thread in self.threads:
            thread.join(max(0.0, until_s - perf_counter()))

    @property
    def _jobs(self) -> TierJobs | None:
        remote_logs = self._broker.remote_logs
        return None if remote_logs is None else remote_logs.jobs

    def work_off(self) -> None:
        """Does all that is due in the calling thread; for clocks that a test moves."""
        while (due := self._begin()) is not None and due[0]:
            for job in due[0]:
                self._work_on(job)

    def _start_thread(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self.threads.append(thread)
        thread.start()

    # The thread that asks

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait(self._run_once())
            self._wake.clear()

    def _run_once(self) -> float:
        """One round; returns how long to wait for the next one in seconds.

        An error must not end the thread, which nobody would notice.
        """
        try:
            due = self._begin()
        except Exception as error:
            now_ms = self._clock.monotonic_ms()
            if self._failures.note(None, error, now_ms, RETRY_MS):
                logger.exception("work on the tier failed, and will be tried again")
            return MAX_WAIT_S
        self._failures.over(None)
        if due is None:
            return MAX_WAIT_S
        for job in due[0]:
            self._submit(job)
        return due[1]

    def _begin(self) -> tuple[list[Job], float] | None:
        """The jobs whose deeds are due, and seconds until more may be."""
        with self._lock:
            jobs = self._jobs
            if jobs is None or self._is_stopping:
                return None
            at = read_clock(self._clock)
            found = jobs.begin(at)
            wait_ms = jobs.next_due_ms - at.monotonic_ms
            has_news = bool(found) or self._broker.answers.has_answers
        if has_news:
            self._on_change()
        self._tell_troubles()
        return found, min(max(wait_ms / 1000, PAUSE_S), MAX_WAIT_S)

    def _submit(self, job: Job) -> None:
        self._queue.put(job)
        if self._idle_count < self._queue.qsize():
            self._start_thread(self._work, f"ottla-tier-{len(self.threads)}")

    # The threads that work

    def _work(self) -> None:
        while not self._is_stopping:
            self._idle_count += 1
            job = self._queue.get()
            self._idle_count -= 1
            if job is None:
                return
            try:
                self._work_on(job)
            except Exception:
                logger.exception("%s failed", job.name)
            self._wake.set()  # another job may begin

    def _work_on(self, job: Job) -> None:
        """Carries out the deeds of a job until it has to wait, or is over."""
        is_more = True
        while is_more:
            if job.is_in_turns:
                self._carry_out_in_turns(job)
            else:
                job.carry_out()
            with self._lock:
                jobs = self._jobs
                if jobs is None:
                    return
                is_more = jobs.resume(job, read_clock(self._clock))
            self._on_change()
        self._tell_troubles()

    def _tell_troubles(self) -> None:
        """Writes what fails into a file, without the broker's lock."""
        remote_logs = self._broker.remote_logs
        if remote_logs is None or not remote_logs.jobs.has_troubles_to_tell:
            return
        with self._telling:  # or an older list would replace a newer one
            with self._lock:
                found = remote_logs.jobs.take_troubles()
            if found is None:
                return
            directory = self._broker.directories[0].path
            try:
                remote_logs.write_troubles(directory, found)
            except OSError as error:
                logger.warning("%s: what the tier fails cannot be noted: %s", directory, error)

    def _carry_out_in_turns(self, job: Job) -> None:
        """Under the lock, which others get in between."""
        turn = Turn(lambda: self._let_others(turn), perf_counter, max_elements=MOST, max_size=MOST)
        turn.until_s = perf_counter() + SLICE_S
        token = CURRENT.set(turn)
        try:
            with self._lock:
                if not self._is_stopping:
                    job.carry_out()
        finally:
            CURRENT.reset(token)
            turn.end()

    def _let_others(self, turn: Turn) -> None:
        self._lock.release()
        try:
            sleep(PAUSE_S)
        finally:
            self._lock.acquire()
        turn.until_s = perf_counter() + SLICE_S
