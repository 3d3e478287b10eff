"""Sends one record to its partition, for interactive use: acks=all, and written once."""

import secrets
from dataclasses import field

from ottla.base.errors import UnknownNameError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.bulk.producer_identity import init_producer
from ottla.client.connecting.cluster import Cluster, check
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import DENIALS, RefusedError, refusals
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.record.partitioner import partition_for_key
from ottla.record.record import Headers

ALL_IN_SYNC = -1
TIMEOUT_MS = 30_000
LAST_VERSION_WITH_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRecord:
    """Without a partition the key chooses one as in Kafka's clients, or without a key a random
    one.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default=())
    timestamp_ms: int


def send_record(cluster: Cluster, record: OneRecord) -> tuple[TopicPartition, int]:
    """Returns the record's partition and offset. Raises `UserError`."""
    place = TopicPartition(record.topic, _partition(cluster, record))
    builder = RecordBatchBuilder()
    is_repeatable = _identify(cluster, builder)
    builder.append(record.key, record.value, record.timestamp_ms, record.headers)
    batch = builder.build()
    request = ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=place.topic,
                partition_data=[PartitionProduceData(index=place.partition, records=batch)],
            )
        ],
    )

    def ask(leader: Connection) -> int:
        answer = leader.ask(request, newest=LAST_VERSION_WITH_NAMES)
        (found,) = answer.responses[0].partition_responses
        check(found.error_code, found.error_message)
        return int(found.base_offset)

    with refusals(f"{place.topic}-{place.partition}"):
        if is_repeatable:
            return place, cluster.ask_leader(place.topic, place.partition, ask)
        return place, ask(cluster.leader(place.topic, place.partition))


def _identify(cluster: Cluster, builder: RecordBatchBuilder) -> bool:
    """Gives the batch a producer id, by which a leader knows it again that got it before.

    Returns `False` for a user without the right to one: such a batch must not be sent again.
    """
    try:
        identity = init_producer(cluster, "", TIMEOUT_MS)
    except RefusedError as error:
        if error.code not in DENIALS:
            raise
        return False
    builder.producer_id, builder.producer_epoch = identity.producer_id, identity.epoch
    builder.base_sequence = 0
    return True


def _partition(cluster: Cluster, record: OneRecord) -> int:
    with refusals(f"topic {record.topic}"):
        found = cluster.look_for(record.topic)
    if found is None:
        raise UnknownNameError("topic", record.topic, cluster.topic_names())
    there = sorted(found.leaders)
    if record.partition is not None:
        if record.partition not in there:
            raise UnknownNameError(
                "partition", str(record.partition), map(str, there), record.topic
            )
        return record.partition
    if record.key is not None:
        return partition_for_key(record.key, len(there))
    return secrets.choice(there)
