"""Guards of records: produce, fetch, offsets, producer ids."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError
from ottla.broker.security.authorizer import Authorizer
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.server.authorization.access import Access, Answer, AuditLog, Handle, joined
from ottla.server.dispatching.request_context import Handler, RequestContext

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

FIRST_PRODUCE_BY_ID = 13


def produce(
    request: ProduceRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    transactional_id = request.transactional_id
    if transactional_id is not None and not access.transactional_id(
        Operation.WRITE, transactional_id
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _refused_produce(request, request.topic_data, code)
    topics = request.topic_data
    if len(topics) == 1:
        if _may_write(topics[0], context, access):
            return handle(request, context)
        return _refused_produce(request, topics, DENIED)
    allowed, denied = access.split(topics, lambda one: _may_write(one, context, access))
    if not denied:
        return handle(request, context)
    refusal = _refused_produce(request, denied, DENIED)
    request.topic_data = allowed
    return joined(allowed, partial(handle, request, context), refusal, "responses")


def quick_produce(handle: Handler, authorizer: Authorizer, audit: AuditLog) -> Handler:
    """The guard of produce; for a producer that was allowed before it costs one dictionary
    lookup.
    """
    known = authorizer.known
    write, topic_type = Operation.WRITE, ResourceType.TOPIC

    def check(request: ProduceRequest, context: RequestContext) -> Answer:
        topics = request.topic_data
        if (
            len(topics) == 1
            and request.transactional_id is None
            and context.api_version < FIRST_PRODUCE_BY_ID
        ):
            client = context.client
            if known.get((client.principal, client.host, write, topic_type, topics[0].name)):
                return handle(request, context)
        return produce(request, context, Access(authorizer, audit, context), handle)

    return check


def _may_write(topic: TopicProduceData, context: RequestContext, access: Access) -> bool:
    name: str | None = topic.name
    if context.api_version >= FIRST_PRODUCE_BY_ID:
        name = access.name_of(topic.topic_id)
    # For an unknown id the handler answers: ids are not secret.
    return name is None or access.topic(Operation.WRITE, name)


def _refused_produce(
    request: ProduceRequest, topics: list[TopicProduceData], code: ErrorCode
) -> ProduceResponse:
    if request.acks == 0:
        raise ProtocolError(f"a produce without an answer (acks=0) is refused: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, error_code=code, base_offset=-1)
                    for one in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def fetch(request: FetchRequest, context: RequestContext, access: Access, handle: Handle) -> Answer:
    """Checks a session's topics at each fetch; followers need the right on the cluster."""
    if _is_followers(request):
        is_allowed = access.cluster(Operation.CLUSTER_ACTION)
        return handle(request, context, lambda _: is_allowed)
    return handle(request, context, partial(access.topic, Operation.READ))


def _is_followers(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def quick_fetch(handle: Handle, authorizer: Authorizer, audit: AuditLog) -> Handler:
    """The guard of fetch; a topic that was allowed before costs one dictionary lookup."""
    known = authorizer.known
    read, topic_type = Operation.READ, ResourceType.TOPIC

    def check(request: FetchRequest, context: RequestContext) -> Answer:
        if _is_followers(request):
            return fetch(request, context, Access(authorizer, audit, context), handle)
        client = context.client
        principal, host = client.principal, client.host

        def may_read(name: str) -> bool:
            return known.get((principal, host, read, topic_type, name), False) or Access(
                authorizer, audit, context
            ).topic(read, name)

        return handle(request, context, may_read)

    return check


def by_topic(
    operation: Operation, response: Callable[..., Any], refused: Callable[[Any], Any]
) -> Callable[[Any, RequestContext, Access, Handle], Answer]:
    """A guard of requests whose `topics` have names, and that are answered topic by topic."""

    def guard(request: Any, context: RequestContext, access: Access, handle: Handle) -> Answer:
        name = "name" if not request.topics or hasattr(request.topics[0], "name") else "topic"
        allowed, denied = access.split(
            request.topics, lambda one: access.topic(operation, getattr(one, name))
        )
        request.topics = allowed
        refusal = response(topics=[refused(one) for one in denied])
        return joined(allowed, partial(handle, request, context), refusal, "topics")

    return guard


def refused_list_offsets(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=DENIED)
            for one in topic.partitions
        ],
    )


def refused_delete_records(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=one.partition_index, low_watermark=-1, error_code=DENIED
            )
            for one in topic.partitions
        ],
    )


def _refused_describe_producers(topic: TopicRequest, code: ErrorCode) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(
                partition_index=index, error_code=code, error_message=code.description
            )
            for index in topic.partition_indexes
        ],
    )


def describe_producers(
    request: DescribeProducersRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """Who asks what a share group has in flight must also be allowed to describe the group."""
    group_id = request.share_group_id
    if group_id is not None and not access.group(Operation.DESCRIBE, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused = [_refused_describe_producers(one, code) for one in request.topics]
        return DescribeProducersResponse(topics=refused)
    guard = by_topic(
        Operation.READ,
        DescribeProducersResponse,
        lambda one: _refused_describe_producers(one, DENIED),
    )
    return guard(request, context, access, handle)


def refused_epochs(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            EpochEndOffset(partition=one.partition, error_code=DENIED) for one in topic.partitions
        ],
    )


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """Followers, and consumers that may describe the topic."""
    if access.sees(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return handle(request, context)
    guard = by_topic(Operation.DESCRIBE, OffsetForLeaderEpochResponse, refused_epochs)
    return guard(request, context, access, handle)


def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """A producer without transactions needs to be allowed to write somewhere (KIP-679)."""
    code = ErrorCode.NONE
    if request.transactional_id is not None:
        if not access.transactional_id(Operation.WRITE, request.transactional_id):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not access.some_topic(Operation.WRITE) and not access.cluster(Operation.IDEMPOTENT_WRITE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return handle(request, context)
