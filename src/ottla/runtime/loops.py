"""Refuses calls that would block an event loop, and names the call to use instead."""

import sys

from ottla.base.errors import UserError


class BlockingCallError(UserError):
    """A call that would block the thread of an event loop, or wait for the thread it is made in.

    `ottla.aio` has the call to await in a loop. In a delivery callback, which runs in the
    producer's own thread, `flush` and the like have to be left to another thread.

    >>> async def order() -> None:
    ...     producer.flush()
    >>> import asyncio
    >>> asyncio.run(order())
    Traceback (most recent call last):
    ottla.runtime.loops.BlockingCallError: ... await ottla.aio.Producer.flush
    """


def check_may_block(call: str, instead: str) -> None:
    """Raises `BlockingCallError` in a coroutine, but not in a notebook, whose cells all run so."""
    if "asyncio" not in sys.modules:
        return  # No loop is running, and a command starts sooner without asyncio.
    from asyncio import get_running_loop

    try:
        get_running_loop()
    except RuntimeError:
        return
    if "ipykernel" not in sys.modules:
        raise BlockingCallError(
            f"{call} would hold up the event loop that is running in this thread; call {instead}"
        )
