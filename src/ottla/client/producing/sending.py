"""The result of `send` for one record. Not compiled, so that `help` shows docstrings."""

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from ottla.base.errors import OttlaError
from ottla.client.producing.batches import RecordBatchInMaking
from ottla.client.producing.sent_record import SentRecord
from ottla.runtime.loops import check_may_block


class Sending:
    """A record that was sent; the methods are those of `concurrent.futures.Future`.

    >>> sending = producer.send("orders", b"tea", partition=0)
    >>> sending.result(timeout=10).offset
    3
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: RecordBatchInMaking, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether there is an outcome.

        >>> sending = producer.send("orders", b"tea")
        >>> producer.flush()
        0
        >>> sending.done()
        True
        """
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> SentRecord:
        """The record's place; raises its error, and `TimeoutError`.

        >>> producer.send("orders", b"tea", partition=1).result()
        SentRecord(topic='orders', partition=1, offset=1, timestamp_ms=...)
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._batch.record(self._index)

    def get(self, timeout: float | None = None) -> SentRecord:
        """`result`, by kafka-python's name.

        >>> producer.send("orders", b"tea", partition=0).get(timeout=10).offset
        3
        """
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        """The error, or `None`; raises `TimeoutError`.

        >>> print(producer.send("orders", b"tea").exception(timeout=10))
        None
        """
        batch = self._batch
        if not batch.is_done:
            check_may_block("result", "await ottla.aio.Producer.send_and_wait")
            with batch.lock:
                if not batch.lock.wait_for(self.done, timeout):
                    raise TimeoutError(f"{batch.place}: no answer in {timeout} s")
        return batch.error

    def add_done_callback(self, callback: "Callable[[Any], object]") -> None:
        """The callback gets this object, in the producer's thread, or at once if it is done.

        >>> sending = producer.send("orders", b"tea", partition=0)
        >>> sending.add_done_callback(lambda done: print(done.result().offset))
        >>> producer.flush()
        3
        0
        """
        if not self._batch.is_done:
            with self._batch.lock:
                if not self._batch.is_done:
                    self._batch.waiters.append(partial(call_back, callback, self))
                    return
        call_back(callback, self)


class AwaitableSending(Sending):
    """The same in an event loop: `await` it for the outcome.

    >>> async with ottla.aio.Producer(log) as producer:
    ...     sending = await producer.send("orders", b"tea", partition=0)
    ...     sending.add_done_callback(lambda done: print(done.result().offset))
    ...     (await sending).offset
    3
    3
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, SentRecord]:
        future = self._future()
        return future.__await__()  # type: ignore[no-any-return]

    def add_done_callback(self, callback: "Callable[[Any], object]") -> None:
        """The callback gets this object, in the event loop."""
        self._future().add_done_callback(lambda _: callback(self))

    def _future(self) -> Any:
        """Created only on demand: most applications await few of their records."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        future = loop.create_future()
        batch = self._batch
        with batch.lock:
            if not batch.is_done and not batch.promises:
                batch.waiters.append(partial(_keep_in_loop, loop, batch))
            batch.promises.append((self._index, future))
            is_done = batch.is_done
        if is_done:
            _keep_promises(batch)
        return future


def call_back(callback: Callable[..., object], *arguments: object) -> None:
    """Reports an error in an application's callback as Python does for threads, and continues."""
    try:
        callback(*arguments)
    except Exception:
        import sys

        threading.excepthook(
            threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
        )


def _keep_in_loop(loop: Any, batch: RecordBatchInMaking) -> None:
    """One call for all futures of a batch, which its producer's thread completes."""
    with suppress(RuntimeError):  # The loop is closed: nobody waits.
        loop.call_soon_threadsafe(_keep_promises, batch)


def _keep_promises(batch: RecordBatchInMaking) -> None:
    promises, batch.promises = batch.promises, []
    for index, future in promises:
        if future.done():
            continue
        if batch.error is None:
            future.set_result(batch.record(index))
        else:
            future.set_exception(batch.error)
            # The exception need not be retrieved: `flush` and the counts report it too.
            future.exception()
