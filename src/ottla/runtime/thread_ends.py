"""Waits for threads that end, but not for ever: one may wait for a disk that does not answer.

`stop_limit.py` has the same for a whole process.
"""

from collections.abc import Sequence
from threading import Thread
from typing import Final

from ottla.base.errors import StorageError

LIMIT_S: Final = 30.0
"""As the flusher and the cleaner have it: the sync of a large log may take long."""


class HangingError(StorageError):
    """Nobody knows what is still going to be written to the directories: they are left as by a
    crash, and belong to this process until it ends.
    """

    def __init__(self, paths: Sequence[str], what: str) -> None:
        reason = (
            f"{what} for {LIMIT_S:g} s: the disk does not answer; what is there is left as by a "
            "crash, and recovered when it is opened after the end of this process"
        )
        super().__init__(", ".join(paths), reason)


def join_in_time(thread: Thread, paths: Sequence[str]) -> None:
    """Returns when a thread has ended; raises `HangingError`, with its name, if it does not."""
    thread.join(LIMIT_S)
    if thread.is_alive():
        raise HangingError(paths, f"the thread {thread.name} has not ended")
