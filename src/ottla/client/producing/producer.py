"""`ottla.Producer`, for threads; `ottla.aio.Producer` has the same names.

with ottla.Producer("127.0.0.1:9092", value_serializer="json") as producer:
    producer.send("orders", {"tea": 2}, key=b"table 4")
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from ottla.base.arguments import check_topic_name
from ottla.base.closing import Closing
from ottla.base.partitions import Offsets
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.connecting.target import Target
from ottla.client.producing.accumulator import Row
from ottla.client.producing.batches import Headers, OnDelivery
from ottla.client.producing.core import Encoding, Group, ProducerCore, check_callback
from ottla.client.producing.partitioners import Partitioner
from ottla.client.producing.sending import Sending
from ottla.client.producing.serializers import Serializer
from ottla.runtime.loops import check_may_block

if TYPE_CHECKING:
    from ottla.config.typed_settings import ProducerSettings


class Producer(Closing):
    """Sends records in batches. Threads may share it. Use it in a `with` statement.

    `target` is an open log, a data directory, or `HOST:PORT[,HOST:PORT]`. `settings` are producer
    settings by Kafka's names. A serializer is a function, or one of "bytes", "str", "json"; with
    `None` keys and values are bytes. A partitioner is a function of the key's bytes, or `None`, and
    the partition count. Errors raise `UserError`.

    >>> with ottla.Producer(log, value_serializer="json") as producer:
    ...     producer.send("orders", {"tea": 2}, key=b"table 4").result().topic
    'orders'
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
        self._core = ProducerCore(target, settings, encoding)

    def __len__(self) -> int:
        """Records without an acknowledgement."""
        return self._core.metrics()["records_waiting"]

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Sending:
        """Adds a record to the next batch of its partition; `result()` waits for the
        acknowledgement. Waits only for room in the buffer, and the first time for the topic's
        metadata.

        >>> sending = producer.send("orders", b"tea", b"table 4", headers=[("waiter", b"Eva")])
        >>> sending.result(timeout=10).partition
        1
        """
        core = self._core
        if core.has_serializers:
            key, value = core.serialized(key, value)
        row = (key, value, timestamp_ms, headers)
        try:
            while (sending := core.append(topic, row, partition, None)) is None:
                self._make_way(topic, row)
        except TypeError:
            check_topic_name(topic)
            raise  # The error is from the application's own partitioner.
        return sending

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """As `send`, and later calls `on_delivery(error, record)` in the producer's thread.

        One of the two is `None`.

        >>> producer.produce("orders", b"tea", on_delivery=lambda error, record: print(error))
        >>> producer.flush()
        None
        0
        """
        core = self._core
        check_callback(on_delivery)
        if core.has_serializers:
            key, value = core.serialized(key, value)
        row = (key, value, None, headers)
        try:
            while core.append(topic, row, partition, on_delivery) is None:
                self._make_way(topic, row)
        except TypeError:
            check_topic_name(topic)
            raise

    def _make_way(self, topic: str, row: Row) -> None:
        """Waits for what is missing for a record: the topic's metadata, or room."""
        check_may_block("send", "await ottla.aio.Producer.send")
        if not self._core.knows(topic):
            self._core.look_up(topic)
        else:
            self._core.wait_for_room(row)

    def flush(self, timeout: float | None = None) -> int:
        """Waits until all sent records have an outcome; returns how many do not yet.

        Raises `BlockingCallError` in a delivery callback, as `close` and `commit_transaction` do.

        >>> for number in range(100):
        ...     _ = producer.send("orders", b"%d" % number)
        >>> producer.flush(timeout=10)
        0
        """
        check_may_block("flush", "await ottla.aio.Producer.flush")
        return self._core.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Sends what is left, and closes; aborts an open transaction.

        >>> producer.close()
        >>> producer.send("orders", b"tea")
        Traceback (most recent call last):
        ottla.base.errors.UserError: ...
        """
        if not self._core.is_closed:
            check_may_block("close", "await ottla.aio.Producer.close")
            self._core.close(timeout)

    def partitions_for(self, topic: str) -> set[int]:
        """The current partitions of a topic.

        >>> producer.partitions_for("orders")
        {0, 1}
        """
        check_may_block("partitions_for", "await ottla.aio.Producer.partitions_for")
        return set(range(self._core.look_up(topic)))

    def metrics(self) -> dict[str, int]:
        """Counts since the start, and the current buffer.

        >>> producer.send("orders", b"tea").result().topic
        'orders'
        >>> producer.metrics()["records_sent"]
        1
        """
        return self._core.metrics()

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commits all records sent within the block together at its end, or none of them after an
        error.

        >>> with producer.transaction():
        ...     _ = producer.send("orders", b"tea", partition=0)
        ...     _ = producer.send("orders", b"cake", partition=1)
        >>> [record.value for record in log.read("orders", 1)]
        [b'milk', b'cake']
        """
        check_may_block("transaction", "ottla.aio.Producer.transaction")
        self._core.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._core.is_in_transaction:
                self._core.abort_transaction()
            raise
        if self._core.is_in_transaction:
            self._core.commit_transaction()

    def init_transactions(self) -> None:
        """Fences other producers of the same transactional.id; the first transaction does so.

        >>> producer.init_transactions()
        """
        check_may_block("init_transactions", "await ottla.aio.Producer.init_transactions")
        self._core.init_transactions()

    def begin_transaction(self) -> None:
        """Begins a transaction; records sent from now on belong to it.

        >>> producer.begin_transaction()
        >>> sending = producer.send("orders", b"tea", partition=1)
        >>> producer.commit_transaction()
        >>> sending.result().offset
        1
        """
        check_may_block("begin_transaction", "await ottla.aio.Producer.begin_transaction")
        self._core.begin_transaction()

    def commit_transaction(self) -> None:
        """Commits. Raises `TransactionError` if a record could not be sent: then nothing is
        committed.

        >>> producer.begin_transaction()
        >>> sending = producer.send("orders", b"tea", partition=1)
        >>> producer.commit_transaction()
        >>> sending.result().offset
        1
        """
        check_may_block("commit_transaction", "await ottla.aio.Producer.commit_transaction")
        self._core.commit_transaction()

    def abort_transaction(self) -> None:
        """Aborts the transaction, and discards its records.

        >>> producer.begin_transaction()
        >>> _ = producer.send("orders", b"tea", partition=1)
        >>> producer.abort_transaction()
        >>> [record.value for record in log.read("orders", 1)]
        [b'milk']
        """
        check_may_block("abort_transaction", "await ottla.aio.Producer.abort_transaction")
        self._core.abort_transaction()

    def send_offsets_to_transaction(self, offsets: Offsets, group: Group) -> None:
        """Commits a group's offsets, each that of the next record to read, with the transaction.

        `group` is the consumer that read the records, or its `group_metadata()`; a name only for a
        group without members. Raises `CommitFailedError` if the group gave the partitions to
        another member: the transaction can then only be aborted.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> with ottla.Consumer(log, "kitchen") as consumer, producer.transaction():
        ...     consumer.assign([place])
        ...     producer.send_offsets_to_transaction({place: 2}, consumer)
        >>> ottla.Admin(log).group_offsets("kitchen")[place].offset
        2
        """
        check_may_block(
            "send_offsets_to_transaction", "await ottla.aio.Producer.send_offsets_to_transaction"
        )
        self._core.send_offsets(offsets, group)
