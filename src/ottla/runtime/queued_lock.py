"""`QueuedLock`: a reentrant lock for many threads that hold it for microseconds each."""

import _thread
import threading
from contextlib import suppress


class QueuedLock(_thread.RLock):  # type: ignore[misc]  # Final only for type checkers.
    """As `threading.RLock`, but one thread at a time waits for it in a `with` statement, and the
    others for their turn to wait.

    A thread that is woken at every release, and then has to wait for Python, costs more than what
    the lock is held for: 16 threads append twice as many single records with it.
    """

    def __init__(self) -> None:
        self._queue = threading.RLock()

    def __enter__(self) -> bool:  # type: ignore[override]
        try:
            return self.acquire(False) or self._acquire_in_turn()
        except BaseException:
            # An interrupt may come when one of them has just been taken.
            for lock in (self, self._queue):
                with suppress(RuntimeError):
                    lock.release()
            raise

    def _acquire_in_turn(self) -> bool:
        with self._queue:
            return self.acquire()
