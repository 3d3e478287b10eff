"""Sends packed columns to the leaders of their partitions: acks=all, idempotent, in order.

`producing/producer.py` takes single records and has its own transaction. Spark's sink packs whole
columns, and its driver ends the transactions of other processes. One request per leader is pending
while the caller packs the next records; its response is awaited before that leader's next request,
so that a retried batch never follows its successor. Kafka's counterparts: `KafkaProducer`,
`Sender`.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from itertools import zip_longest
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError
from ottla.base.files import Buffer
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.bulk.producer_identity import ProducerIdentity
from ottla.client.bulk.transactions import add_partitions
from ottla.client.connecting.cluster import PASSING, Cluster, check
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import refusals
from ottla.codec.compression import Compression
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import MAX_SEQUENCE
from ottla.record.builder import RecordBatchBuilder
from ottla.record.packing import PackedRecords

ALL_ISR = -1
"""`acks`: all in-sync replicas."""

LAST_VERSION = 11
"""Version of Produce; from 12 on the broker adds partitions to a transaction implicitly (version
2).
"""

MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch with its producer's stamp: when retried, it has the same bytes."""

    place: TopicPartition
    records: Buffer


@dataclass(slots=True)
class Delivery:
    """Pending batches, at most one per partition, until all are acknowledged."""

    cluster: Cluster
    transactional_id: str
    left: dict[TopicPartition, Batch]
    _answers: list[Callable[[], Any]] = field(default_factory=list)

    def start(self) -> None:
        """Sends the remaining batches, one request per leader; raises what `Cluster.leader`
        raises.
        """
        self._answers = []
        by_leader: dict[Connection, list[Batch]] = {}
        for batch in self.left.values():
            by_leader.setdefault(self.cluster.leader(*batch.place), []).append(batch)
        self._answers = [
            leader.send(self._request(batches), newest=LAST_VERSION)
            for leader, batches in by_leader.items()
        ]

    def finish(self) -> None:
        """Waits for the responses; retries what is not acknowledged. Raises `UserError`."""
        place = next(iter(self.left))
        with refusals(f"{place[0]}-{place[1]}"):
            self.cluster.again(self._attempt)

    def _attempt(self) -> None:
        if not self._answers:
            self.start()
        answers, self._answers = self._answers, []
        failure: Exception | None = None
        for answer in answers:
            try:
                failure = self._take(answer()) or failure
            except UnreachableError as error:
                failure = error
        if failure is not None:
            raise failure

    def _take(self, response: Any) -> ApiError | None:
        """Removes what was acknowledged; raises a permanent error at once."""
        failure = None
        for topic in response.responses:
            for one in topic.partition_responses:
                try:
                    # The broker recognizes the batch as one that it already has.
                    if one.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                        check(one.error_code, one.error_message)
                    del self.left[TopicPartition(topic.name, one.index)]
                except ApiError as error:
                    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        # The topic existed when its leader was looked up: the broker does not know
                        # it yet.
                        error = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
                    if error.code not in PASSING:
                        raise
                    failure = error
        return failure

    def _request(self, batches: Iterable[Batch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for one in batches:
            name, partition = one.place
            data = PartitionProduceData(index=partition, records=one.records)
            topics.setdefault(name, []).append(data)
        return ProduceRequest(
            transactional_id=self.transactional_id or None,
            acks=ALL_ISR,
            timeout_ms=int(self.cluster.settings.request_timeout_s * MILLISECONDS),
            topic_data=[
                TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )


@dataclass(slots=True)
class Producer:
    """Writes as `identity`. Nothing is guaranteed before `flush`."""

    cluster: Cluster
    identity: ProducerIdentity
    compression: Compression = Compression.NONE
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _delivery: Delivery | None = None

    def send(self, topic: str, packed: Sequence[PackedRecords]) -> None:
        """Sends all records, and may return before the last one is acknowledged."""
        self._add_partitions({TopicPartition(topic, one.partition) for one in packed})
        by_partition: dict[int, list[PackedRecords]] = {}
        for one in packed:
            by_partition.setdefault(one.partition, []).append(one)
        for several in zip_longest(*by_partition.values()):
            batches = [self._stamped(topic, one) for one in several if one is not None]
            self._deliver({one.place: one for one in batches})

    def flush(self) -> None:
        """Returns once all sent records are acknowledged; raises `UserError`."""
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            delivery.finish()

    def _deliver(self, batches: dict[TopicPartition, Batch]) -> None:
        self.flush()
        delivery = Delivery(self.cluster, self.identity.transactional_id, batches)
        with refusals(f"{next(iter(batches))[0]}"):
            self.cluster.again(delivery.start)
        self._delivery = delivery

    def _add_partitions(self, places: set[TopicPartition]) -> None:
        new = places.difference(self._sequences)
        if new and self.identity.transactional_id:
            add_partitions(self.cluster, self.identity, new)
        self._sequences.update(dict.fromkeys(new, 0))

    def _stamped(self, topic: str, packed: PackedRecords) -> Batch:
        place = TopicPartition(topic, packed.partition)
        builder = RecordBatchBuilder(
            compression=self.compression,
            is_transactional=bool(self.identity.transactional_id),
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self._sequences[place],
        )
        now_ms = int(time.time() * MILLISECONDS)
        builder.append_packed(
            packed.payload, packed.count, base_timestamp_ms=now_ms, max_timestamp_ms=now_ms
        )
        self._sequences[place] = (self._sequences[place] + packed.count) & MAX_SEQUENCE
        return Batch(place, builder.build(last_offset=packed.count - 1))
