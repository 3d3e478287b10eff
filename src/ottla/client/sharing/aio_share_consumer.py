"""`ottla.aio.ShareConsumer`: the share consumer for an event loop. Requests to brokers run in
threads; fetched records are returned in the loop itself.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from ottla.base.arguments import check_count, check_seconds
from ottla.client.sharing.base import ShareConsumerBase
from ottla.client.sharing.records import ShareRecord
from ottla.runtime.loop_waker import LoopWaker


class ShareConsumer(ShareConsumerBase):
    """A member of a share group (KIP-932), as `ottla.ShareConsumer`. Use it in an `async with`
    statement. `on_acknowledged` may be a coroutine.

    >>> async with ottla.aio.ShareConsumer(log, "workers") as consumer:
    ...     consumer.subscribe("jobs")
    ...     async for record in consumer:
    ...         with consumer.ack(record):
    ...             print(record.value, record.delivery_count)
    ...         break
    b'cut' 1
    """

    _woken: LoopWaker | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The record that the application failed on is delivered again.
        await self._close(accepts=kind is None)

    async def close(self) -> None:
        """Accepts what was returned, in the implicit mode, releases all other records, and leaves
        the group.

        >>> await share_consumer.close()
        >>> await share_consumer.poll()
        Traceback (most recent call last):
        ottla.client.consumer.errors.ClosedError: ...
        """
        await self._close(accepts=True)

    async def _close(self, *, accepts: bool) -> None:
        if self._core.is_closed:
            return
        await asyncio.to_thread(lambda: self._core.close(accepts=accepts))
        await self._tell()

    # Records

    async def poll(self, timeout: float | None = None) -> ShareRecord | None:
        """The next record, or `None` if none arrives within `timeout` seconds.

        >>> (await share_consumer.poll(timeout=10)).value
        b'cut'
        """
        found = await self._gather(1, timeout, is_patient=False)
        return found[0] if found else None

    async def consume(
        self, num_messages: int = 1, timeout: float | None = None
    ) -> list[ShareRecord]:
        """Up to `num_messages` records; fewer if no more arrive within `timeout` seconds.

        >>> [record.value for record in await share_consumer.consume(2, timeout=10)]
        [b'cut', b'glue']
        """
        return await self._gather(num_messages, timeout, is_patient=True)

    async def poll_many(
        self, max_records: int = 500, timeout: float | None = None
    ) -> list[ShareRecord]:
        """The records that are there, up to `max_records`: waits at most `timeout` seconds for the
        first one, and for no others, as `consume` does.

        >>> [record.value for record in await share_consumer.poll_many(2, timeout=10)]
        [b'cut', b'glue']
        """
        return await self._gather(max_records, timeout, is_patient=False)

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Endless: waits for records until the consumer is closed."""
        core = self._core
        while not core.is_closed:
            for record in await self._gather(1, None, is_patient=False):
                yield record
        core.check_process()

    async def _gather(
        self, count: int, timeout: float | None, *, is_patient: bool
    ) -> list[ShareRecord]:
        """Waits for `count` records if it is patient, otherwise for one."""
        core = self._core
        check_count(count, "records")
        core.check_reads()
        core.settle()
        if self._woken is None:
            self._woken = LoopWaker(core.wakers)
        woken = self._woken
        until_s = None if timeout is None else time.monotonic() + check_seconds(timeout)
        found: list[ShareRecord] = []
        while not core.is_closed:
            await self._tell()
            core.check_failures()
            if core.has_work():
                await asyncio.to_thread(core.work)
            woken.clear()
            found += core.take(count - len(found), may_raise=not found)
            if len(found) >= count or (found and not is_patient):
                await asyncio.sleep(0)  # Let other tasks run, however much there is to read.
                break
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            if not core.has_something():
                await woken.wait(core.patience_s(left_s))
        return found

    async def commit(self, timeout: float | None = None) -> None:
        """Sends what was said of records, and waits for the answers; in the implicit mode what was
        returned is accepted first. Raises `AcknowledgementError` for what is not in effect,
        `LockLostError` where that is because locks had expired, and `TimeoutError` after `timeout`
        seconds.

        >>> record = await share_consumer.poll(timeout=10)
        >>> await share_consumer.commit()
        """
        seconds = None if timeout is None else check_seconds(timeout)
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._core.flush()), seconds)
        finally:
            await self._tell()

    async def _tell(self) -> None:
        if self._on_acknowledged is not None:
            for result in self._core.next_results():
                answer = self._on_acknowledged(result)
                if inspect.isawaitable(answer):
                    await answer
