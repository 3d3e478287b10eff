"""`ottla.aio.Producer`: the producer for an event loop. Waiting for brokers happens in threads of
the loop's executor; a record for which the buffer has room is added in the loop itself.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ottla.base.arguments import check_topic_name
from ottla.base.closing import AsyncClosing
from ottla.base.partitions import Offsets
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.connecting.target import Target
from ottla.client.producing.batches import Headers, OnDelivery
from ottla.client.producing.core import Encoding, Group, ProducerCore, check_callback
from ottla.client.producing.partitioners import Partitioner
from ottla.client.producing.sending import AwaitableSending
from ottla.client.producing.sent_record import SentRecord
from ottla.client.producing.serializers import Serializer

if TYPE_CHECKING:
    from ottla.config.typed_settings import ProducerSettings


class Producer(AsyncClosing):
    """Sends records in batches, from one event loop. Use it in an `async with` statement.

    Arguments are those of `ottla.Producer`.

    >>> async with ottla.aio.Producer(log, value_serializer="json") as producer:
    ...     (await producer.send_and_wait("orders", {"tea": 2}, partition=0)).offset
    3
    """

    @answers_unknown_arguments
    def __init__(
        self,
        target: Target,
        *,
        settings: "ProducerSettings | Mapping[str, Any] | None" = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        encoding = Encoding(key=key_serializer, value=value_serializer, partitioner=partitioner)
        self._core = ProducerCore(target, settings, encoding, AwaitableSending)

    def __len__(self) -> int:
        """Records without an acknowledgement."""
        return self._core.metrics()["records_waiting"]

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> AwaitableSending:
        """Adds a record to the next batch of its partition; await the result for the
        acknowledgement. Waits only for room in the buffer, and the first time for the topic's
        metadata.

        >>> answer = await producer.send("orders", b"tea", partition=0)
        >>> (await answer).offset
        3
        """
        core = self._core
        if core.has_serializers:
            key, value = core.serialized(key, value)
        row = (key, value, timestamp_ms, headers)
        try:
            while (sending := core.append(topic, row, partition, None)) is None:
                if not core.knows(topic):
                    await asyncio.to_thread(core.look_up, topic)
                else:
                    await asyncio.to_thread(core.wait_for_room, row)
        except TypeError:
            check_topic_name(topic)
            raise  # The error is from the application's own partitioner.
        return sending  # type: ignore[return-value]  # The core makes these.

    async def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """As `send`, and later calls `on_delivery(error, record)` in the event loop.

        One of the two is `None`.

        >>> await producer.produce("orders", b"tea", on_delivery=lambda error, record: print(error))
        >>> await producer.flush()
        None
        0
        """
        check_callback(on_delivery)
        sending = await self.send(topic, value, key, partition=partition, headers=headers)
        if on_delivery is not None:
            sending.add_done_callback(partial(_report, on_delivery))

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> SentRecord:
        """Sends a record and returns its place; raises the error.

        >>> (await producer.send_and_wait("orders", b"tea", partition=0)).offset
        3
        """
        return await (await self.send(topic, value, key, **more))

    async def flush(self, timeout: float | None = None) -> int:
        """Waits until all sent records have an outcome; returns how many do not yet.

        >>> for number in range(100):
        ...     _ = await producer.send("orders", b"%d" % number)
        >>> await producer.flush(timeout=10)
        0
        """
        return await asyncio.to_thread(self._core.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Sends what is left, and closes; aborts an open transaction.

        >>> await producer.close()
        >>> await producer.send("orders", b"tea")
        Traceback (most recent call last):
        ottla.base.errors.UserError: ...
        """
        await asyncio.to_thread(self._core.close, timeout)

    async def partitions_for(self, topic: str) -> set[int]:
        """The current partitions of a topic.

        >>> await producer.partitions_for("orders")
        {0, 1}
        """
        return set(range(await asyncio.to_thread(self._core.look_up, topic)))

    def metrics(self) -> dict[str, int]:
        """Counts since the start, and the current buffer.

        >>> _ = await producer.send_and_wait("orders", b"tea")
        >>> producer.metrics()["records_sent"]
        1
        """
        return self._core.metrics()

    # Transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commits all records sent within the block together at its end, or none of them after an
        error.

        >>> async with producer.transaction():
        ...     _ = await producer.send("orders", b"tea", partition=1)
        >>> [record.value for record in log.read("orders", 1)]
        [b'milk', b'tea']
        """
        core = self._core
        await asyncio.to_thread(core.begin_transaction)
        try:
            yield self
        except BaseException:
            if core.is_in_transaction:
                await asyncio.to_thread(core.abort_transaction)
            raise
        if core.is_in_transaction:
            await asyncio.to_thread(core.commit_transaction)

    async def init_transactions(self) -> None:
        """Fences other producers of the same transactional.id; the first transaction does so.

        >>> await producer.init_transactions()
        """
        await asyncio.to_thread(self._core.init_transactions)

    async def begin_transaction(self) -> None:
        """Begins a transaction; records sent from now on belong to it.

        >>> await producer.begin_transaction()
        >>> answer = await producer.send("orders", b"tea", partition=1)
        >>> await producer.commit_transaction()
        >>> (await answer).offset
        1
        """
        await asyncio.to_thread(self._core.begin_transaction)

    async def commit_transaction(self) -> None:
        """Commits. Raises `TransactionError` if a record could not be sent: then nothing is
        committed.

        >>> await producer.begin_transaction()
        >>> answer = await producer.send("orders", b"tea", partition=1)
        >>> await producer.commit_transaction()
        >>> (await answer).offset
        1
        """
        await asyncio.to_thread(self._core.commit_transaction)

    async def abort_transaction(self) -> None:
        """Aborts the transaction, and discards its records.

        >>> await producer.begin_transaction()
        >>> _ = await producer.send("orders", b"tea", partition=1)
        >>> await producer.abort_transaction()
        >>> [record.value for record in log.read("orders", 1)]
        [b'milk']
        """
        await asyncio.to_thread(self._core.abort_transaction)

    async def send_offsets_to_transaction(self, offsets: Offsets, group: Group) -> None:
        """Commits a group's offsets, each that of the next record to read, with the transaction.

        `group` is the consumer that read the records, or its `group_metadata()`; a name only for a
        group without members. Raises `CommitFailedError` if the group gave the partitions to
        another member: the transaction can then only be aborted.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> async with ottla.aio.Consumer(log, "kitchen") as consumer, producer.transaction():
        ...     consumer.assign([place])
        ...     await producer.send_offsets_to_transaction({place: 2}, consumer)
        """
        await asyncio.to_thread(self._core.send_offsets, offsets, group)


def _report(on_delivery: OnDelivery, done: AwaitableSending) -> None:
    error = done.exception()
    on_delivery(error, None if error is not None else done.result())
