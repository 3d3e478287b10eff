"""The threads that read the remote tier for fetches and for searches by time.

A store may take seconds, or never answer: only the requests that need it wait. Kafka's counterpart:
`RemoteStorageThreadPool` of `RemoteLogManager`.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from ottla.broker.broker import Broker
from ottla.broker.records.tier_reads import TierReads, TierWork

STOP_S = 1.0
"""How long `stop` waits for reads that run; the store may be dead."""


class TierReaders:
    """At most `remote.log.reader.threads` threads, each started when it is needed first.

    `lock` is the broker's, and `on_done` is called without it when a read is done.
    """

    def __init__(
        self,
        broker: Broker,
        reads: TierReads,
        *,
        lock: AbstractContextManager[object],
        on_done: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._reads = reads
        reads.threads = self
        self._lock = lock
        self._on_done = on_done
        self._queue: deque[TierWork] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle_count = 0
        self._is_stopping = False

    @property
    def queue_size(self) -> int:
        """How many reads wait for a thread."""
        return len(self._queue)

    def submit(self, work: TierWork) -> bool:
        config = self._broker.settings.config
        with self._changed:
            if self._is_stopping or len(self._queue) >= config.remote_log_reader_max_pending_tasks:
                return False
            self._queue.append(work)
            has_room = len(self._threads) < config.remote_log_reader_threads
            if has_room and self._idle_count < len(self._queue):
                name = f"ottla-tier-reader-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return True

    def stop(self) -> None:
        """Drops what has not begun; returns soon, also if the store does not."""
        with self._changed:
            self._is_stopping = True
            self._queue.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(STOP_S / len(threads))

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work.carry_out(lambda: self._lock)
            self._reads.done(work)
            self._on_done()

    def _next(self) -> TierWork | None:
        """The next read; `None` if this thread is not wanted any more."""
        with self._changed:
            self._idle_count += 1
            while not (self._is_surplus or self._queue):
                self._changed.wait()
            self._idle_count -= 1
            if self._is_surplus:
                self._threads.remove(threading.current_thread())
                return None
            return self._queue.popleft()

    @property
    def _is_surplus(self) -> bool:
        wanted = self._broker.settings.config.remote_log_reader_threads
        return self._is_stopping or len(self._threads) > wanted
