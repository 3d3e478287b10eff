"""AddPartitionsToTxn, 0 to 5: a producer names the partitions that it is about to write to.

From version 4 on the request carries several transactions, and may only verify that partitions
belong to them (KIP-890); only other brokers send such requests.
Kafka's counterpart: `KafkaApis.handleAddPartitionsToTxnRequest`.
"""

from collections.abc import Callable, Iterable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import parts_in_turns, turn_dict
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.coordinator.transaction.transaction import FIRST_EPOCH_BUMP_VERSION
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsPartitionResult,
    AddPartitionsResult,
    AddPartitionsTopic,
    AddPartitionsTopicResult,
    AddPartitionsToTransactionRequest,
    AddPartitionsToTransactionResponse,
    AddPartitionsTransaction,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.fencing import known_code

FIRST_FENCED_VERSION = 2
FIRST_BATCH_VERSION = 4
FIRST_ABORTABLE_VERSION = 5

Errors = Callable[[TopicPartition], ErrorCode]


def handle(
    request: AddPartitionsToTransactionRequest, context: RequestContext
) -> AddPartitionsToTransactionResponse:
    if context.api_version < FIRST_BATCH_VERSION:
        claim = ProducerClaim(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            epoch=request.v3_and_below_producer_epoch,
        )
        topics = request.v3_and_below_topics
        errors = _refused_internal(topics) or _add(claim, topics, context, client_version=0)
        return AddPartitionsToTransactionResponse(
            results_by_topic_v3_and_below=_results(topics, errors, context)
        )
    return AddPartitionsToTransactionResponse(
        results_by_transaction=[_add_or_verify(one, context) for one in request.transactions]
    )


def _refused_internal(topics: Sequence[AddPartitionsTopic]) -> Errors | None:
    """A client that could add an internal topic would have the end of its transaction written there
    (`KafkaApis` leaves these topics out of those that may be authorized)."""
    if not any(one.name in INTERNAL_TOPICS for one in topics):
        return None
    return lambda where: (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if where.topic in INTERNAL_TOPICS
        else ErrorCode.OPERATION_NOT_ATTEMPTED
    )


def _add_or_verify(one: AddPartitionsTransaction, context: RequestContext) -> AddPartitionsResult:
    claim = ProducerClaim(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        epoch=one.producer_epoch,
    )
    if one.verify_only:
        found: dict[TopicPartition, ErrorCode] = turn_dict()
        for part in parts_in_turns(_partitions(one.topics)):
            found.update(context.broker.transactions.verify(claim, part, context.at))
        errors: Errors = found.__getitem__
    else:
        errors = _add(claim, one.topics, context, client_version=FIRST_EPOCH_BUMP_VERSION)
    return AddPartitionsResult(
        transactional_id=one.transactional_id, topic_results=_results(one.topics, errors, context)
    )


def _add(
    claim: ProducerClaim,
    topics: Sequence[AddPartitionsTopic],
    context: RequestContext,
    *,
    client_version: int,
) -> Errors:
    """Adds all partitions or none: if one is unknown, the others are not attempted."""
    wanted, known = _partitions(topics), context.broker.catalog
    unknown = turn_dict((where, None) for where in wanted if not known.has_partition(where))
    if unknown:
        return lambda where: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if where in unknown
            else ErrorCode.OPERATION_NOT_ATTEMPTED
        )
    # A set: the transaction's machine must not be interrupted between its decision and its record.
    outcome = context.broker.transactions.add_partitions(
        claim, frozenset(wanted), context.at, client_version=client_version
    )
    return lambda where: outcome.error


def _partitions(topics: Sequence[AddPartitionsTopic]) -> Iterable[TopicPartition]:
    """Each partition once, so that existing ones are at most as many as the broker has."""
    return turn_dict(
        (TopicPartition(topic.name, index), None) for topic in topics for index in topic.partitions
    )


def _results(
    topics: Sequence[AddPartitionsTopic], errors: Errors, context: RequestContext
) -> list[AddPartitionsTopicResult]:
    return [
        AddPartitionsTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsPartitionResult(
                    partition_index=index,
                    partition_error_code=_known(
                        errors(TopicPartition(topic.name, index)), context.api_version
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _known(code: ErrorCode, api_version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < FIRST_ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return known_code(code, api_version, FIRST_FENCED_VERSION)
