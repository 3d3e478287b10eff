"""Sends dead letters of share groups to the leaders of their partitions."""

from collections.abc import Callable
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.codec.schema import Message
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 30_000

DeadLetterChannels = Channels[DeadLetterRequest, ErrorCode]


def dead_letter_channels(
    parts: ChannelParts, answered: Callable[[int, ErrorCode | None, Timestamps], None]
) -> DeadLetterChannels:
    """Channels whose answers go to `answered`: a request's number, and the error if one came."""

    def deliver(request: DeadLetterRequest, error: ErrorCode | None, at: Timestamps) -> None:
        answered(request.number, error, at)

    return Channels(parts, "dead-letters", _ask, deliver)


def _ask(request: DeadLetterRequest, peer: Peer, endpoint: Endpoint | None) -> ErrorCode:
    return error_of(peer.ask(endpoint, message_of(request)))


def message_of(request: DeadLetterRequest) -> Message:
    data = PartitionProduceData(index=request.place.partition, records=request.records)
    topic = TopicProduceData(
        name=request.place.topic, topic_id=request.topic_id, partition_data=[data]
    )
    return ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[topic])


def error_of(response: ProduceResponse) -> ErrorCode:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return ErrorCode(partition.error_code)
