"""Says what to call instead where a call would hold up an event loop."""

import sys
from asyncio import get_running_loop

from ottla.base.errors import UserError


class BlockingCallError(UserError):
    """A call that waits, in the thread of an event loop."""


def check_may_block(call: str, instead: str) -> None:
    """Raises `BlockingCallError` within a coroutine; not in a notebook, whose cells all run so."""
    try:
        get_running_loop()
    except RuntimeError:
        return
    if "ipykernel" not in sys.modules:
        raise BlockingCallError(
            f"{call} would hold up the event loop that is running in this thread; call {instead}"
        )
