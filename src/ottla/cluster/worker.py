"""A thread of a member that does again and again what is due."""

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from ottla.cluster.peers import BACKOFF_S, PeerError

logger = logging.getLogger(__name__)

JOIN_S: Final = 5.0
"""How long `stop` waits for the thread."""


class Repeated:
    """Logs an error that nobody expected once, however often it comes again in the same way."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known = ""

    def happened(self, error: Exception) -> None:
        """While the error is handled."""
        if repr(error) != self._known:
            self._known = repr(error)
            logger.exception(self._text)

    def is_over(self) -> None:
        self._known = ""


class Worker:
    """Calls `work`, from `start` to `stop`, which returns after how many seconds it is due again at
    the latest. After a `PeerError` it is called again soon.
    """

    def __init__(self, name: str, work: Callable[[], float]) -> None:
        self._work = work
        self._changed = Condition()
        self._is_woken = False
        self._is_stopping = False
        self._failure = Repeated("could not handle a response of the controller; it is asked again")
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is something to do; from any thread."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def begin_stop(self) -> None:
        """The thread ends after what it does now."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which the thread may wait."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def pause(self, longest_s: float) -> None:
        """Ends early when there is something to do; any thread may wait so."""
        with self._changed:
            if not self._is_stopping and not self._is_woken:
                self._changed.wait(longest_s)
            self._is_woken = False

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                pause_s = self._work()
            except PeerError:
                self._back_off()
            except Exception as error:
                # If this thread ended, nothing would be asked of the controller any more.
                self._failure.happened(error)
                self._back_off()
            else:
                self._failure.is_over()
                self.pause(pause_s)

    def _back_off(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, BACKOFF_S)
