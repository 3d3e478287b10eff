"""Guards of transactions."""

from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.messages.add_offsets_to_transaction import (
    AddOffsetsToTransactionRequest,
    AddOffsetsToTransactionResponse,
)
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsPartitionResult,
    AddPartitionsTopicResult,
    AddPartitionsToTransactionRequest,
    AddPartitionsToTransactionResponse,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.end_transaction import EndTransactionRequest, EndTransactionResponse
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.transaction_offset_commit import (
    TransactionOffsetCommitRequest,
    TransactionOffsetCommitRequestTopic,
    TransactionOffsetCommitResponse,
    TransactionOffsetCommitResponsePartition,
    TransactionOffsetCommitResponseTopic,
)
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarkerPartitionResult,
    WritableTransactionMarkerResult,
    WritableTransactionMarkerTopicResult,
    WriteTransactionMarkersRequest,
    WriteTransactionMarkersResponse,
)
from ottla.server.authorization.access import Access, Answer, Handle, joined
from ottla.server.dispatching.request_context import RequestContext, amended

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_BATCH_VERSION = 4


def add_partitions(
    request: AddPartitionsToTransactionRequest,
    context: RequestContext,
    access: Access,
    handle: Handle,
) -> Answer:
    """If one topic is denied, no topic is added; requests of brokers need ClusterAction."""
    if context.api_version >= FIRST_BATCH_VERSION:
        if access.cluster(Operation.CLUSTER_ACTION):
            return handle(request, context)
        return AddPartitionsToTransactionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not access.transactional_id(Operation.WRITE, request.v3_and_below_transactional_id):
        codes = {one.name: DENIED for one in topics}
    else:
        _, denied = access.split(topics, lambda one: access.topic(Operation.WRITE, one.name))
        if not denied:
            return handle(request, context)
        codes = {one.name: ErrorCode.OPERATION_NOT_ATTEMPTED for one in topics}
        codes.update((one.name, TOPIC_DENIED) for one in denied)
    return AddPartitionsToTransactionResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def add_offsets(
    request: AddOffsetsToTransactionRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    if not access.transactional_id(Operation.WRITE, request.transactional_id):
        return AddOffsetsToTransactionResponse(error_code=DENIED)
    if not access.group(Operation.READ, request.group_id):
        return AddOffsetsToTransactionResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return handle(request, context)


def end(
    request: EndTransactionRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    if access.transactional_id(Operation.WRITE, request.transactional_id):
        return handle(request, context)
    return EndTransactionResponse(error_code=DENIED)


def commit_offsets(
    request: TransactionOffsetCommitRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    code, allowed = ErrorCode.NONE, request.topics
    denied: list[TransactionOffsetCommitRequestTopic] = []
    if not access.transactional_id(Operation.WRITE, request.transactional_id):
        code = DENIED
    elif not access.group(Operation.READ, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        allowed, denied = access.split(
            request.topics, lambda one: access.topic(Operation.READ, one.name)
        )
    if code:
        allowed, denied = [], request.topics
    refusal = TransactionOffsetCommitResponse(
        topics=[_refused_commit(one, code or TOPIC_DENIED) for one in denied]
    )
    request.topics = allowed
    return joined(allowed, partial(handle, request, context), refusal, "topics")


def _refused_commit(
    topic: TransactionOffsetCommitRequestTopic, code: ErrorCode
) -> TransactionOffsetCommitResponseTopic:
    return TransactionOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TransactionOffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )
            for one in topic.partitions
        ],
    )


def write_markers(
    request: WriteTransactionMarkersRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """For brokers, and since 4.0 for administrators who end a transaction that hangs."""
    if access.sees(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME) or access.cluster(
        Operation.CLUSTER_ACTION
    ):
        return handle(request, context)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WriteTransactionMarkersResponse(
        markers=[
            WritableTransactionMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTransactionMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTransactionMarkerPartitionResult(
                                partition_index=index, error_code=code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def describe(
    request: DescribeTransactionsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """Lists only the topics of a transaction that the client may describe."""
    request.transactional_ids, denied = access.split(
        request.transactional_ids, lambda one: access.transactional_id(Operation.DESCRIBE, one)
    )

    def amend(response: DescribeTransactionsResponse) -> None:
        for one in response.transaction_states:
            one.topics = [
                topic
                for topic in one.topics
                if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
            ]
        response.transaction_states.extend(
            TransactionState(transactional_id=one, error_code=DENIED) for one in denied
        )

    return amended(handle(request, context), amend)


def list_all(
    request: ListTransactionsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def amend(response: ListTransactionsResponse) -> None:
        response.transaction_states = [
            one
            for one in response.transaction_states
            if access.sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one.transactional_id)
        ]

    return amended(handle(request, context), amend)
