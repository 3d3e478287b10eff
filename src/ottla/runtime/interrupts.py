"""Delays Ctrl-C until a change of the log is complete, and notices it before a read of input.

Python raises `KeyboardInterrupt` between any two instructions of the main thread. Rare, long
changes are not interrupted. An append is, and the log is recovered afterwards: setting a handler
twice would cost more than the rest of the append.
"""

import os
import select
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class HeldInterrupts:
    """A block of the main thread that delays SIGINT: its handler runs at the end.

    Other threads get no signals, and a handler that is not Python's raises nothing.
    """

    __slots__ = ("_frame", "_handler", "_is_due")

    def __init__(self) -> None:
        self._handler: Any = None
        self._is_due = False
        self._frame: FrameType | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._hold)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._is_due:
                self._handler(signal.SIGINT, self._frame)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._is_due = True
        self._frame = frame

    def give_back(self) -> None:
        """For a forked child, in which no thread leaves the block."""
        signal.signal(signal.SIGINT, self._handler)


def give_back_interrupts() -> None:
    """Restores the handler in a child that another thread forked while SIGINT was delayed."""
    holder = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(holder, HeldInterrupts):
        holder.give_back()


def wait_for_input(number: int) -> None:
    """Returns once a pipe or terminal can be read, or has ended.

    Otherwise a Ctrl-C between Python's last check and a read would be noticed after the read.
    """
    if threading.current_thread() is not threading.main_thread():
        select.select([number], [], [])
        return
    woken, waker = os.pipe()
    try:
        os.set_blocking(waker, False)
        before = signal.set_wakeup_fd(waker)
        try:
            _wait(number, woken)
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(woken)
        os.close(waker)


def _wait(number: int, woken: int) -> None:
    """Python checks for signals at each call and each iteration of a loop."""
    while number not in select.select([number, woken], [], [])[0]:
        os.read(woken, 1)
