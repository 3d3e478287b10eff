"""The condition of a producer's lock. Not compiled, since it is a subclass of Python's own."""

from collections.abc import Callable
from threading import Condition, Thread, current_thread
from typing import TypeVar

from ottla.runtime.loops import BlockingCallError

_Value = TypeVar("_Value")


class OutcomeCondition(Condition):
    """Callers wait with it for outcomes and for room, both of which `sending_thread` makes."""

    sending_thread: Thread | None = None

    def wait_for(self, predicate: Callable[[], _Value], timeout: float | None = None) -> _Value:
        """Raises `BlockingCallError` where the sending thread would wait for itself."""
        may_wait = timeout is None or timeout > 0
        if may_wait and current_thread() is self.sending_thread and not predicate():
            raise BlockingCallError(
                "a delivery callback runs in the thread that sends the producer's records and "
                "cannot wait for them there; call flush, result, close and the end of a "
                "transaction from another thread, and send no more than buffer.memory holds"
            )
        return super().wait_for(predicate, timeout)
