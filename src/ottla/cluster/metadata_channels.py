"""Sends records of `__remote_log_metadata` to the brokers that lead its partitions, and fetches
those of partitions that this broker has no replica of.

Kafka's brokers do both with a producer and a consumer of their own (`ProducerManager`,
`ConsumerManager`).
"""

from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.metadata_requests import (
    MetadataAnswer,
    MetadataAppend,
    MetadataFetch,
    MetadataRequest,
)
from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 30_000
FETCH_SIZE: Final = 1 << 18

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
"""The newest versions that name topics, and not their ids."""

MetadataChannels = Channels[MetadataRequest, MetadataAnswer]


def metadata_channels(parts: ChannelParts, metadata: RemoteLogMetadata) -> MetadataChannels:
    """Channels whose answers go to `metadata`."""

    def deliver(request: MetadataRequest, answer: MetadataAnswer | None, at: Timestamps) -> None:
        unknown = MetadataAnswer(error=ErrorCode.NETWORK_EXCEPTION)
        metadata.answered(request, answer or unknown, at)

    return Channels(parts, "remote-log-metadata", _ask, deliver)


def _ask(request: MetadataRequest, peer: Peer, endpoint: Endpoint | None) -> MetadataAnswer:
    if isinstance(request, MetadataAppend):
        return _appended(peer.ask(endpoint, _produce(request), PRODUCE_VERSION))
    return _fetched(peer.ask(endpoint, _fetch(request), FETCH_VERSION))


def _produce(request: MetadataAppend) -> ProduceRequest:
    builder = RecordBatchBuilder()
    builder.append(None, request.value, request.timestamp_ms)
    data = PartitionProduceData(index=request.place.partition, records=builder.build())
    topic = TopicProduceData(name=request.place.topic, partition_data=[data])
    return ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[topic])


def _appended(response: Any) -> MetadataAnswer:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return MetadataAnswer(error=ErrorCode(partition.error_code), offset=partition.base_offset)


def _fetch(request: MetadataFetch) -> FetchRequest:
    partition = FetchPartition(
        partition=request.place.partition,
        fetch_offset=request.offset,
        partition_max_bytes=FETCH_SIZE,
    )
    topic = FetchTopic(topic=request.place.topic, partitions=[partition])
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_SIZE, topics=[topic])


def _fetched(response: Any) -> MetadataAnswer:
    if response.error_code:
        return MetadataAnswer(error=ErrorCode(response.error_code))
    (topic,) = response.responses
    (partition,) = topic.partitions
    return MetadataAnswer(
        error=ErrorCode(partition.error_code),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        # A copy: the response's own bytes are valid until the next request.
        records=bytes(partition.records or b""),
    )
