"""Sends the markers of this broker's transactions to other brokers. Kafka's counterpart:
`TransactionMarkerChannelManager`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.transactions.coordinator import TransactionCoordinator
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)

Errors = Mapping[tuple[int, TopicPartition], ErrorCode]

MarkerChannels = Channels[MarkerRequest, Errors]


def marker_channels(
    parts: ChannelParts,
    transactions: TransactionCoordinator,
    version: Callable[[], InterBrokerVersion],
) -> MarkerChannels:
    """Channels whose answers go to the coordinator."""

    def deliver(request: MarkerRequest, errors: Errors | None, at: Timestamps) -> None:
        transactions.markers_answered(request.number, errors, at)

    return Channels(parts, "transaction-markers", partial(_ask, version), deliver)


def _ask(
    version: Callable[[], InterBrokerVersion],
    request: MarkerRequest,
    peer: Peer,
    endpoint: Endpoint | None,
) -> Errors:
    newest = sent_version(ApiKey.WRITE_TXN_MARKERS, version())
    return _errors(peer.ask(endpoint, _message(request), newest))


def _message(request: MarkerRequest) -> WriteTransactionMarkersRequest:
    markers = []
    for sent in request.markers:
        markers.append(
            WritableTransactionMarker(
                producer_id=sent.marker.producer_id,
                producer_epoch=sent.marker.epoch,
                transaction_result=sent.marker.is_commit,
                coordinator_epoch=sent.marker.coordinator_epoch,
                topics=[
                    WritableTransactionMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(sent.partitions).items()
                ],
            )
        )
    return WriteTransactionMarkersRequest(markers=markers)


def _errors(answer: Any) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): ErrorCode(
            one.error_code
        )
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    }
