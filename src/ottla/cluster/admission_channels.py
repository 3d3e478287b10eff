"""Asks the coordinators of transactions on other brokers whether producers may write to partitions.

Kafka's counterpart: `AddPartitionsToTxnManager`, which sends the same requests.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.admission_requests import AdmissionRequest, AskedPartitions
from ottla.broker.transactions.admissions import AnsweredErrors
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.codec.schema import Message
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
    AddPartitionsTransaction,
)

FIRST_BROKER_VERSION: Final = 4

AdmissionChannels = Channels[AdmissionRequest, AnsweredErrors]


def admission_channels(
    parts: ChannelParts, answered: Callable[[int, AnsweredErrors | None, Timestamps], None]
) -> AdmissionChannels:
    """Channels whose answers go to `answered`: a request's number, and the errors."""

    def deliver(request: AdmissionRequest, errors: AnsweredErrors | None, at: Timestamps) -> None:
        answered(request.number, errors, at)

    return Channels(parts, "transaction-admissions", _ask, deliver)


def _ask(request: AdmissionRequest, peer: Peer, endpoint: Endpoint | None) -> AnsweredErrors:
    if peer.version_of(endpoint, ApiKey.ADD_PARTITIONS_TO_TXN, None) < FIRST_BROKER_VERSION:
        # As in Kafka, what a coordinator before 3.5 cannot be asked is not verified.
        return {one.claim.transactional_id: _admitted(one) for one in request.asked}
    return errors_of(request, peer.ask(endpoint, message_of(request)))


def _admitted(one: AskedPartitions) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(one.partitions, ErrorCode.NONE)


def message_of(request: AdmissionRequest) -> Message:
    return AddPartitionsToTransactionRequest(
        transactions=[
            AddPartitionsTransaction(
                transactional_id=one.claim.transactional_id,
                producer_id=one.claim.producer_id,
                producer_epoch=one.claim.epoch,
                verify_only=not one.can_add,
                topics=[
                    AddPartitionsTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(one.partitions).items()
                ],
            )
            for one in request.asked
        ]
    )


def errors_of(request: AdmissionRequest, response: Any) -> AnsweredErrors:
    """The errors by transactional id; one for the whole request is that of each partition."""
    if response.error_code:
        error = ErrorCode(response.error_code)
        return {
            one.claim.transactional_id: dict.fromkeys(one.partitions, error)
            for one in request.asked
        }
    return {
        one.transactional_id: {
            TopicPartition(topic.name, its.partition_index): ErrorCode(its.partition_error_code)
            for topic in one.topic_results
            for its in topic.results_by_partition
        }
        for one in response.results_by_transaction
    }
