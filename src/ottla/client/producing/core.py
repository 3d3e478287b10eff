"""What both kinds of producers are made of: from an object to a place in a batch."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.groups import Committed
from ottla.client.producing.accumulator import (
    Accumulator,
    Headers,
    OnDelivery,
    RecordBatchInMaking,
    Row,
    size_of,
)
from ottla.client.producing.partitioners import Partitioner, Partitioning
from ottla.client.producing.sender import MILLISECONDS, Sender
from ottla.client.producing.serializers import Serializer, serializer_of
from ottla.client.refusals import UnknownTopicError
from ottla.client.settings import client_settings
from ottla.client.target import Target, open_target
from ottla.client.transactions import commit_offset, end_transaction
from ottla.config.producer import producer_config
from ottla.record.batch import NO_LEADER_EPOCH
from ottla.runtime.forks import bind_to_process

CLOSED = "this producer is closed; make another"
FORKED = "this producer was made before the fork; make another in the child"
Offsets = Mapping[TopicPartition, int]


class BufferFullError(UserError):
    """No room in buffer.memory within max.block.ms: brokers take less than is sent."""


class TransactionError(UserError):
    """A transaction could not be committed, and was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How an application's objects become bytes, and which partition they go to."""

    key: Serializer = "bytes"
    value: Serializer = "bytes"
    partitioner: Partitioner | None = None


class ProducerCore:
    """Any thread may call it."""

    def __init__(
        self, target: Target, settings: Mapping[str, Any] | None, encoding: Encoding
    ) -> None:
        self.config, client = client_settings(settings, producer_config)
        config = self.config
        self._key = serializer_of(encoding.key)
        self._value = serializer_of(encoding.value)
        self._partitioning = Partitioning(encoding.partitioner or config.partitioner)
        self._places: dict[str, list[TopicPartition]] = {}
        self._refusal: str | None = None
        self.is_in_transaction = False
        self._has_offsets = False
        accumulator = Accumulator(
            batch_size=config.batch_size,
            linger_s=config.linger_ms / MILLISECONDS,
            memory=config.buffer_memory,
        )
        self.cluster = open_target(target, client, may_make=True)
        self.sender = Sender(self.cluster, config, accumulator)
        self._accumulator = accumulator
        self._lock = self.sender.lock
        self._is_transactional = bool(config.transactional_id)
        bind_to_process(self)
        self.sender.start()

    def abandon(self) -> None:
        """In a child of a fork, which has not the thread that sends."""
        self._refusal = FORKED

    # Records

    def row(self, value: Any, key: Any, timestamp_ms: int | None, headers: Headers) -> Row:
        """An application's objects as they are sent; raises what its serializers raise."""
        if key is not None and self._key is not None:
            key = self._key(key)
        if value is not None and self._value is not None:
            value = self._value(value)
        for one in (key, value):
            if one is not None and not isinstance(one, bytes):
                _refuse(one)
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        return key, value, now_ms, headers

    def add(
        self, topic: str, row: Row, partition: int | None, on_delivery: OnDelivery | None
    ) -> tuple[RecordBatchInMaking, int] | None:
        """A batch and the record's place in it; `None` while there is no room. Does not wait."""
        places = self._places[topic]
        count = len(places)
        size = size_of(row)
        if size > self.config.max_request_size:
            raise UserError(
                f"a record of {size} bytes is larger than max.request.size="
                f"{self.config.max_request_size}; raise that, and the topic's max.message.bytes"
            )
        sender = self.sender
        with sender.mutex:
            if self._refusal is not None:
                raise UserError(self._refusal)
            if self._is_transactional and not self.is_in_transaction:
                raise UserError("no transaction has begun; send within producer.transaction()")
            if not self._accumulator.has_room(size):
                return None
            chosen = partition
            if chosen is None:
                chosen = self._partitioning.partition_of(topic, row[0], count)
            elif not 0 <= chosen < count:
                raise UserError(
                    f"topic {topic} has {count} partitions; {chosen} is not one of them"
                )
            batch, is_new = self._accumulator.add(places[chosen], row, size, time.monotonic)
            index = len(batch.rows) - 1
            if on_delivery is not None:
                batch.callbacks.append((index, on_delivery))
            if is_new:
                sender.unfinished[batch] = None
                if row[0] is None:
                    self._partitioning.batch_begun(topic, chosen, count)
                self._lock.notify_all()
        return batch, index

    def knows(self, topic: str) -> bool:
        """Whether `add` may be called for a topic."""
        return topic in self._places

    def look_up(self, topic: str) -> int:
        """Asks for a topic's partition count; raises `UnknownTopicError`."""
        self._check_open()
        with self.sender.cluster_lock:
            found = self.cluster.look_up([topic]).get(topic)
            if found is None:
                raise UnknownTopicError(topic, self.cluster.topic_names())
        self._places[topic] = [
            TopicPartition(topic, partition) for partition in range(len(found.leaders))
        ]
        return len(found.leaders)

    def wait_for_room(self, size: int) -> None:
        """Returns when there is room; raises `BufferFullError`."""
        with self._lock:
            if not self._lock.wait_for(
                lambda: self._accumulator.has_room(size) or self._refusal is not None,
                self.config.max_block_ms / MILLISECONDS,
            ):
                raise BufferFullError(
                    f"no room for a record within max.block.ms={self.config.max_block_ms}: "
                    "raise buffer.memory, or send more slowly"
                )

    def flush(self, timeout_s: float | None) -> int:
        """Waits until what was sent before has its answer; returns how many records have not."""
        with self._lock:
            self._check_open()
            wanted = list(self.sender.unfinished)
            self.sender.flush_count += 1
            self._lock.notify_all()
            try:
                self._lock.wait_for(lambda: all(one.is_done for one in wanted), timeout_s)
            finally:
                self.sender.flush_count -= 1
            return sum(len(one.rows) for one in wanted if not one.is_done)

    def close(self, timeout_s: float | None) -> None:
        """Sends what is left, for so long, and gives everything back."""
        with self._lock:
            if self._refusal is not None:
                return
            self._refusal = CLOSED
            self.sender.is_closing = True
            self._lock.notify_all()
        self.sender.join(timeout_s)
        if self.is_in_transaction:
            self.is_in_transaction = False
            self._end(is_commit=False)
        with self.sender.cluster_lock:
            self.cluster.close()

    def metrics(self) -> dict[str, int]:
        """Counts since the start, and what waits now."""
        with self._lock:
            return self.sender.counts | {
                "records_waiting": self._accumulator.record_count,
                "bytes_waiting": self._accumulator.used,
            }

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise UserError(self._refusal)

    # Transactions

    def init_transactions(self) -> None:
        """Fences other producers of the same transactional id; raises `RefusedError`."""
        self._check_open()
        if not self.config.transactional_id:
            raise UserError('transactions need a name; set "transactional.id"')
        with self.sender.cluster_lock:
            self.sender.initialize()

    def begin_transaction(self) -> None:
        if self.is_in_transaction:
            raise UserError("a transaction is open already; commit or abort it first")
        if self.sender.identity is None or self.sender.failure is not None:
            self.init_transactions()
        self.is_in_transaction = True

    def commit_transaction(self) -> None:
        """Raises `TransactionError` when a record could not be sent: then nothing is committed."""
        self._check_transaction()
        self.flush(None)
        failure = self.sender.failure
        self.is_in_transaction = False
        if failure is not None:
            self._end(is_commit=False)
            raise TransactionError(f"the transaction was aborted: {failure}") from failure
        if not self._end(is_commit=True):
            self.sender.identity = None
            raise TransactionError(
                "the transaction was aborted: it took longer than transaction.timeout.ms="
                f"{self.config.transaction_timeout_ms}, or another producer has its "
                "transactional.id; raise the one, or choose another"
            )

    def abort_transaction(self) -> None:
        """Drops what was sent in the transaction."""
        self._check_transaction()
        self.flush(None)
        self.is_in_transaction = False
        self._end(is_commit=False)

    def send_offsets(self, offsets: Offsets, group: str) -> None:
        """Commits a group's offsets with the transaction."""
        self._check_transaction()
        assert self.sender.identity is not None
        with self.sender.cluster_lock:
            for place, offset in offsets.items():
                topic, partition = place
                commit_offset(
                    self.cluster,
                    self.sender.identity,
                    Committed(
                        group=group,
                        topic=topic,
                        partition=partition,
                        offset=offset,
                        leader_epoch=NO_LEADER_EPOCH,
                        metadata="",
                    ),
                )
            self._has_offsets = True

    def _check_transaction(self) -> None:
        if not self.is_in_transaction:
            raise UserError("no transaction is open; begin one first")

    def _end(self, *, is_commit: bool) -> bool:
        sender = self.sender
        with sender.cluster_lock:
            if sender.identity is None or not (sender.added or self._has_offsets):
                return True  # The broker has not heard of it.
            try:
                return end_transaction(self.cluster, sender.identity, is_commit=is_commit)
            finally:
                sender.added.clear()
                self._has_offsets = False


def _refuse(value: object) -> None:
    kind = type(value).__name__
    raise UserError(
        f"a key and a value are bytes, not {kind}; name a key_serializer or value_serializer "
        'such as "str" or "json"'
    )
