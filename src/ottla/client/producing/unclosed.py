"""Producers that nobody closes: what they have is sent before the process or their log ends.

The thread of a producer outlives the object, and sends what that left. Only at the end of the
process would it be stopped without notice.
"""

import atexit
import logging
import sys
import time
import warnings
from typing import Final, Protocol

from ottla.runtime.forks import bind_to_process

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""How long the end of a process or of a log waits for all producers together."""


class Sends(Protocol):
    """The sending half of a producer (`sender.py: Sender`)."""

    is_in_transaction: bool

    @property
    def failed_count(self) -> int: ...

    @property
    def waiting_count(self) -> int: ...

    def flush(self, timeout_s: float | None) -> int: ...

    def let_go(self) -> None: ...


class Unclosed:
    """The producers of this process; a forked child begins without any."""

    def __init__(self) -> None:
        self._senders: dict[Sends, None] = {}
        self._has_finalizer = False
        bind_to_process(self)

    def add(self, sender: Sends) -> None:
        self._senders[sender] = None
        processes = sys.modules.get("multiprocessing.process")
        if self._has_finalizer or processes is None or processes.parent_process() is None:
            return
        # Processes of `multiprocessing` end without the functions of `atexit`.
        from multiprocessing.util import Finalize

        self._has_finalizer = True
        Finalize(None, self.send_all, exitpriority=0)

    def discard(self, sender: Sends) -> None:
        self._senders.pop(sender, None)

    def let_go(self, sender: Sends) -> None:
        """Nobody has the producer any more: its thread sends what is left, and closes it."""
        if sender in self._senders:
            if sender.is_in_transaction:
                sender.is_in_transaction = False
                _complain([OPEN_TRANSACTION])
            sender.let_go()

    def send_all(self) -> None:
        """At the end of the process; warns of what could not be sent."""
        until_s = time.monotonic() + PATIENCE_S
        complaints = []
        for sender in list(self._senders):
            try:
                lost = lost_by(sender, max(0.0, until_s - time.monotonic()))
            except KeyboardInterrupt:
                until_s, lost = 0.0, sender.waiting_count
            if sender.is_in_transaction:
                complaints.append(OPEN_TRANSACTION)
            elif lost:
                complaints.append(f"{lost} records were not delivered")
        self._senders.clear()  # From now on threads stop without notice, perhaps with a lock.
        _complain(complaints)

    def abandon(self) -> None:
        self._senders.clear()
        self._has_finalizer = False


OPEN_TRANSACTION = "its transaction was neither committed nor aborted, and is lost"


def lost_by(sender: Sends, patience_s: float) -> int:
    """Sends what waits; returns how many records were refused, or are left."""
    before = sender.failed_count
    left = sender.flush(patience_s)
    return left + sender.failed_count - before


def send_before_log_closes(sender: Sends) -> None:
    if lost := lost_by(sender, PATIENCE_S):
        logger.warning("the log is closed before its producer: %d records were not delivered", lost)


def _complain(complaints: list[str]) -> None:
    texts = [
        f"a producer was not closed: {one}; use it in a with statement, or call close()"
        for one in complaints
    ]
    for text in texts:
        logger.warning("%s", text)
    for text in texts:  # An application may have made errors of them.
        warnings.warn(text, ResourceWarning, stacklevel=2)


UNCLOSED: Final = Unclosed()

# When this module is imported: functions that an application registers run earlier, and may send.
atexit.register(UNCLOSED.send_all)
