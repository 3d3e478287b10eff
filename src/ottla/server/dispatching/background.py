"""The thread that prepares slow work: large compressed batches, and those that must be rewritten.

Decompression and scanning release the interpreter's lock, so the loop keeps running. The connection
that sent the records is muted, and their bytes kept, until its response is ready.
"""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from ottla.broker.waiting.background import Preparation, carry_out


class BackgroundThread:
    """Starts with the first work. `wake` makes the loop look for finished work."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._queue: SimpleQueue[Preparation | None] = SimpleQueue()
        self._done: deque[Preparation] = deque()
        self._thread: Thread | None = None

    def submit(self, preparation: Preparation) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="ottla-preparing", daemon=True)
            self._thread.start()
        self._queue.put(preparation)

    @property
    def has_done(self) -> bool:
        return bool(self._done)

    def take_done(self) -> list[Preparation]:
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def stop(self) -> None:
        """Returns once the current work is done; work that has not begun is dropped."""
        if self._thread is None:
            return
        while not self._queue.empty():
            self._queue.get()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (preparation := self._queue.get()) is not None:
            preparation.result = carry_out(preparation)
            self._done.append(preparation)
            self._wake()
