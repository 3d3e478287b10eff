"""Ends a process whose stop waits for a disk that does not answer: nobody knows for how long.

Whatever a stop waits for, it is bounded here: threads and processes that it joins, files that it
closes, the broker's lock. The process then ends as by a crash, without a clean-shutdown file in the
directories that are not closed yet.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Final, Protocol

LIMIT_S: Final = 120.0
"""How long a stop may be without a step: a service manager is told that each may take so long
(`service_manager.STEP_US`), and the last sync of a large log may take a minute.
"""

LOOK_S: Final = 1.0
TELL_S: Final = 1.0
"""How long is waited for the last line to be written: its file may be on the same disk."""

EXIT_CODE: Final = 1


class TimedLock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class StopLimit:
    """From enter to exit. `lock` is the broker's, `open_paths` are the directories that are not
    closed yet, and `step` is the last step of the stop, as a text.
    """

    def __init__(
        self,
        lock: TimedLock,
        open_paths: Callable[[], Sequence[str]],
        step: Callable[[], str],
        *,
        limit_s: float = LIMIT_S,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._lock = lock
        self._open_paths = open_paths
        self._step = step
        self._limit_s = limit_s
        self._end = end
        self._is_closing = Event()
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="ottla-stop-limit", daemon=True)

    def __enter__(self) -> "StopLimit":
        """Notices the signals for a stop from now on, also while the main thread, in which their
        handlers run, waits for a disk. Only in the main thread.
        """
        self._ours, self._its = socket.socketpair()
        self._its.setblocking(False)
        signal.set_wakeup_fd(self._its.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def closing(self) -> None:
        """Nothing is served any more."""
        self._is_closing.set()
        self._its.send(bytes((signal.SIGTERM,)))

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._is_over.set()
        self.closing()
        self._thread.join()
        self._ours.close()
        self._its.close()

    def _run(self) -> None:
        while self._ours.recv(1)[0] not in (signal.SIGTERM, signal.SIGINT):
            pass
        # A member may stay for minutes, until others have what it leads: it gets the lock then.
        while not self._is_closing.wait(LOOK_S):
            if not self._lock.acquire(timeout=self._limit_s):
                self._give_up()
                return
            self._lock.release()
        seen = None
        while seen != (seen := self._step()):
            if self._is_over.wait(self._limit_s):
                return
        self._give_up()

    def _give_up(self) -> None:
        teller = Thread(target=self._tell, name="ottla-last-words", daemon=True)
        teller.start()
        teller.join(TELL_S)
        self._end(EXIT_CODE)

    def _tell(self) -> None:
        paths = ", ".join(self._open_paths()) or "a directory"
        line = (
            f"{paths}: the disk has not answered for {self._limit_s:g} s; stopped without closing "
            "what is there, which the next start recovers\n"
        )
        sys.stderr.write(line)
        sys.stderr.flush()
