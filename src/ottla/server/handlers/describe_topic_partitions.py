"""DescribeTopicPartitions, 0: topics in order of name, page by page.

A page ends when it has `response_partition_limit` partitions; its cursor is where the next one
begins. Kafka's counterpart: `DescribeTopicPartitionsRequestHandler` (KIP-966), which brokers with
ZooKeeper lack.
"""

from collections.abc import Callable, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns, sorted_in_turns, turn_dict
from ottla.metadata.cluster_view import PartitionView
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS, check_name
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.operations import TOPIC_OPERATIONS

MayDescribe = Callable[[str], bool]


def everything(_: str) -> bool:
    return True


def handle(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    may_describe: MayDescribe = everything,
) -> DescribeTopicPartitionsResponse:
    """`may_describe`: if all topics are requested, leaves out those that it refuses."""
    context.may_take_long()
    cursor = request.cursor
    if cursor is not None and not _is_valid(cursor, request):
        return _refusal(request)
    limit = context.broker.settings.config.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, limit))
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in _names(request, context, may_describe):
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = 0
        if cursor is not None and cursor.topic_name == name:
            first = cursor.partition_index
        answer = _describe(name, context)
        partitions = answer.partitions
        answer.partitions = [one for one in partitions if one.partition_index >= first][:left]
        response.topics.append(answer)
        left -= len(answer.partitions)
        if answer.partitions and answer.partitions[-1] is not partitions[-1]:
            next_index = answer.partitions[-1].partition_index + 1
            response.next_cursor = Cursor(topic_name=name, partition_index=next_index)
            break
    return response


def _is_valid(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    """Whether a page can begin there: the topic, if any are named, must be one of them."""
    names = (topic.name for topic in request.topics)
    return cursor.partition_index >= 0 and (not request.topics or cursor.topic_name in names)


def _refusal(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The error code is in each named topic, since the response has no field for it."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=topic.name, error_code=ErrorCode.INVALID_REQUEST
            )
            for topic in request.topics
        ],
        next_cursor=None,
    )


def _names(
    request: DescribeTopicPartitionsRequest, context: RequestContext, may_describe: MayDescribe
) -> Iterable[str]:
    """The requested topics, or all, from the cursor on."""
    if request.topics:
        names = turn_dict((topic.name, None) for topic in request.topics)
    else:
        every = (one.name for one in in_turns(list(context.broker.catalog)))
        names = turn_dict((name, None) for name in every if may_describe(name))
    first = "" if request.cursor is None else request.cursor.topic_name
    return sorted_in_turns(name for name in names if name >= first)


def _describe(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    answer = DescribeTopicPartitionsResponseTopic(
        name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )
    topic = context.broker.catalog.find(name)
    if topic is None:
        answer.error_code = _why_missing(name)
        return answer
    answer.topic_id = topic.topic_id
    answer.is_internal = name in INTERNAL_TOPICS
    views = context.broker.view.partitions(name, context.client.listener)
    answer.partitions = [_partition(one) for one in in_turns(views)]
    return answer


def _why_missing(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(view: PartitionView) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=view.error,
        partition_index=view.partition,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=list(view.replicas),
        isr_nodes=list(view.isr),
        eligible_leader_replicas=list(view.elr),
        last_known_elr=list(view.last_known_elr),
        offline_replicas=list(view.offline),
    )
