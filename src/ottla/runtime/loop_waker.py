"""Waits in an event loop for what other threads do."""

import asyncio
from collections.abc import Callable


class LoopWaker:
    """Made in a running loop, which threads wake from then on by the waker that is added."""

    def __init__(self, wakers: list[Callable[[], None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        wakers.append(self._wake)

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def clear(self) -> None:
        """Forgets what came before; what is looked at afterwards is not missed."""
        self._woken.clear()

    async def wait(self, seconds: float | None) -> None:
        """Until a thread wakes the loop, or the time has passed."""
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return
