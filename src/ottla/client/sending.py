"""Single records into batches, one batch for each partition at a time, sent by a `Producer`.

A record without a key goes where the others of its round go; each round has the next partition.
Kafka's counterparts: `RecordAccumulator`, `BuiltInPartitioner`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.producer import ALL_ISR, Producer
from ottla.client.transactions import ProducerIdentity, end_transaction, init_producer
from ottla.codec.compression import Compression
from ottla.record.builder import RecordBatchBuilder
from ottla.record.partitioner import partition_for_key

BATCH_SIZE = 256 << 10
ROUND_SIZE = 4 << 20
"""Bytes of all partitions together that are sent at once, before compression."""

NO_PRODUCER = ProducerIdentity(transactional_id="", producer_id=-1, epoch=-1)
TRANSACTION_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """With a transactional id all is one transaction; with `acks` of 1 nothing is idempotent."""

    acks: int = ALL_ISR
    compression: Compression = Compression.NONE
    transactional_id: str = ""


@dataclass(slots=True)
class RecordSender:
    """Sends records to one topic. Use it in a `with` statement: its end sends what is left.

    An exception in it aborts the transaction. Raises `UserError`.
    """

    cluster: Cluster
    topic: str
    options: SendOptions = SendOptions()
    _partitions: list[int] = field(default_factory=list)
    _producer: Producer | None = None
    _built: dict[TopicPartition, RecordBatchBuilder] = field(default_factory=dict)
    _size: int = 0
    _round: int = 0

    def __enter__(self) -> "RecordSender":
        found = self.cluster.look_up([self.topic]).get(self.topic)
        if found is None:
            raise UnknownNameError("topic", self.topic, self.cluster.topic_names())
        self._partitions = sorted(found.leaders)
        options, identity = self.options, NO_PRODUCER
        if options.acks == ALL_ISR or options.transactional_id:
            identity = init_producer(self.cluster, options.transactional_id, TRANSACTION_TIMEOUT_MS)
        self._producer = Producer(self.cluster, identity, options.compression, options.acks)
        self._round = int(time.time() * 1000)  # So that short runs do not all take the first one.
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()
        if self.options.transactional_id:
            self._end(is_commit=kind is None)

    def _end(self, *, is_commit: bool) -> None:
        assert self._producer is not None
        if not self._producer.has_sent:
            return
        identity = self._producer.identity
        if not end_transaction(self.cluster, identity, is_commit=is_commit) and is_commit:
            raise UserError(
                f"transaction {self.options.transactional_id} took longer than "
                f"{TRANSACTION_TIMEOUT_MS // 1000} s and was aborted; send fewer records in one"
            )

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """May return before the record is acknowledged, or sent."""
        place = TopicPartition(self.topic, self._choose(key, partition))
        builder = self._built.get(place)
        if builder is None:
            builder = self._built[place] = RecordBatchBuilder()
        before = builder.size_estimate
        time_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        builder.append(key, value, time_ms, headers)
        self._size += builder.size_estimate - before
        if builder.size_estimate >= BATCH_SIZE or self._size >= ROUND_SIZE:
            self.push()

    def _choose(self, key: bytes | None, partition: int | None) -> int:
        count = len(self._partitions)
        if partition is not None:
            if partition not in self._partitions:
                raise UserError(
                    f"topic {self.topic} has no partition {partition}; it has 0 to {count - 1}"
                )
            return partition
        return self._round % count if key is None else partition_for_key(key, count)

    def push(self) -> None:
        """Sends what there is, and waits for what was sent before."""
        assert self._producer is not None
        if self._built:
            self._producer.send_built(self._built)
            self._built = {}
            self._size = 0
            self._round += 1

    def flush(self) -> None:
        """Returns when all is acknowledged."""
        assert self._producer is not None
        self.push()
        self._producer.flush()
