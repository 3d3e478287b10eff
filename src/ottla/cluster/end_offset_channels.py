"""Asks other brokers for the ends of partitions that they lead."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.codec.schema import Message
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.storage.log.offsets import LATEST_TIMESTAMP

CONSUMER: Final = -1

Ends = dict[TopicPartition, int]

EndOffsetChannels = Channels[EndOffsetsRequest, Ends]


def end_offset_channels(
    parts: ChannelParts,
    answered: Callable[[int, Mapping[TopicPartition, int] | None, Timestamps], None],
) -> EndOffsetChannels:
    """Channels whose answers go to `answered`: a request's number, and the ends."""

    def deliver(request: EndOffsetsRequest, ends: Ends | None, at: Timestamps) -> None:
        answered(request.number, ends, at)

    return Channels(parts, "end-offsets", _ask, deliver)


def _ask(request: EndOffsetsRequest, peer: Peer, endpoint: Endpoint | None) -> Ends:
    return ends_of(peer.ask(endpoint, message_of(request)))


def message_of(request: EndOffsetsRequest) -> Message:
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP)
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(request.partitions).items()
        ],
    )


def ends_of(response: Any) -> Ends:
    """Those that were found."""
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in response.topics
        for one in topic.partitions
        if not one.error_code
    }
