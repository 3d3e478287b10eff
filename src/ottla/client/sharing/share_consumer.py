"""`ottla.ShareConsumer`, for threads; `ottla.aio.ShareConsumer` has the same names.

with ottla.ShareConsumer("127.0.0.1:9092", "workers") as consumer:
    consumer.subscribe("jobs")
    for record in consumer:
        with consumer.ack(record):
            handle(record.key, record.value)
"""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from ottla.base.arguments import check_count, check_seconds
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.sharing.base import ShareConsumerBase
from ottla.client.sharing.records import ShareRecord
from ottla.runtime.loops import check_may_block


class ShareConsumer(ShareConsumerBase):
    """A member of a share group (KIP-932): a queue over topics, whose members share the records of
    each partition.

    A returned record is locked for this member, for the group's `share.record.lock.duration.ms`.
    Unless something else is said of it, the next call that reads accepts it
    (`share.acknowledgement.mode` is implicit), and so does the end of a `with` block; if that ends
    with an exception, what the last call returned is released. In the explicit mode a record stays
    locked until something is said of it, by any thread.

    `target` is an open log, a data directory, or `HOST:PORT[,HOST:PORT]`. Read from one thread.
    Errors raise `UserError`; a later call may succeed.

    >>> with ottla.ShareConsumer(log, "workers") as consumer:
    ...     consumer.subscribe("jobs")
    ...     for record in consumer:
    ...         print(record.value, record.delivery_count)
    ...         break
    b'cut' 1
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The record that the application failed on is delivered again.
        self._close(accepts=kind is None)

    def close(self) -> None:
        """Accepts what was returned, in the implicit mode, releases all other records, and leaves
        the group.

        >>> share_consumer.close()
        >>> share_consumer.poll()
        Traceback (most recent call last):
        ottla.client.consumer.errors.ClosedError: ...
        """
        self._close(accepts=True)

    def _close(self, *, accepts: bool) -> None:
        if self._core.is_closed:
            return
        check_may_block("close()", "await ottla.aio.ShareConsumer.close()")
        self._core.close(accepts=accepts)
        self._tell()

    # Records

    def poll(self, timeout: float | None = None) -> ShareRecord | None:
        """The next record, or `None` if none arrives within `timeout` seconds.

        >>> share_consumer.poll(timeout=10).value
        b'cut'
        """
        found = self._gather(1, timeout, is_patient=False)
        return found[0] if found else None

    @answers_unknown_arguments
    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[ShareRecord]:
        """Up to `num_messages` records; fewer if no more arrive within `timeout` seconds.

        >>> [record.value for record in share_consumer.consume(2, timeout=10)]
        [b'cut', b'glue']
        """
        return self._gather(num_messages, timeout, is_patient=True)

    @answers_unknown_arguments
    def poll_many(self, max_records: int = 500, timeout: float | None = None) -> list[ShareRecord]:
        """The records that are there, up to `max_records`: waits at most `timeout` seconds for the
        first one, and for no others, as `consume` does.

        >>> [record.value for record in share_consumer.poll_many(2, timeout=10)]
        [b'cut', b'glue']
        """
        return self._gather(max_records, timeout, is_patient=False)

    def __iter__(self) -> Iterator[ShareRecord]:
        """Endless: waits for records until the consumer is closed."""
        core = self._core
        while not core.is_closed:
            yield from self._gather(1, None, is_patient=False)
        core.check_process()

    def _gather(self, count: int, timeout: float | None, *, is_patient: bool) -> list[ShareRecord]:
        """Waits for `count` records if it is patient, otherwise for one."""
        core = self._core
        check_count(count, "records")
        core.check_reads()
        core.settle()
        until_s = None if timeout is None else time.monotonic() + check_seconds(timeout)
        found: list[ShareRecord] = []
        while not core.is_closed:
            self._tell()
            core.check_failures()
            if core.has_work():
                check_may_block("poll()", "ottla.aio.ShareConsumer.poll()")
                core.work()
            found += core.take(count - len(found), may_raise=not found)
            if len(found) >= count or (found and not is_patient):
                break
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            check_may_block("poll()", "ottla.aio.ShareConsumer.poll()")
            core.wait(left_s)
        return found

    def commit(self, timeout: float | None = None) -> None:
        """Sends what was said of records, and waits for the answers; in the implicit mode what was
        returned is accepted first. Raises `AcknowledgementError` for what is not in effect,
        `LockLostError` where that is because locks had expired, and `TimeoutError` after `timeout`
        seconds.

        >>> record = share_consumer.poll(timeout=10)
        >>> share_consumer.commit()
        """
        check_may_block("commit()", "await ottla.aio.ShareConsumer.commit()")
        seconds = None if timeout is None else check_seconds(timeout)
        try:
            self._core.flush().result(seconds)
        finally:
            self._tell()

    def _tell(self) -> None:
        if self._on_acknowledged is not None:
            for result in self._core.next_results():
                self._on_acknowledged(result)
