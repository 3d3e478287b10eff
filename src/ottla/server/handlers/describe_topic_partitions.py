"""DescribeTopicPartitions, 0: topics in order of name, page by page.

A page ends when it has `response_partition_limit` partitions; its cursor is where the next one
begins. Kafka's counterpart: `DescribeTopicPartitionsRequestHandler` (KIP-966).
"""

from collections.abc import Callable, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns, sorted_in_turns
from ottla.broker.topics.topic_rules import check_name
from ottla.broker.topics.topics import Topic
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.server.operations import TOPIC_OPERATIONS
from ottla.server.request_context import RequestContext

MayDescribe = Callable[[str], bool]
Describe = Callable[[str], DescribeTopicPartitionsResponseTopic]


def everything(_: str) -> bool:
    return True


def handle(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    may_describe: MayDescribe = everything,
) -> DescribeTopicPartitionsResponse:
    """`may_describe`: if all topics are requested, leaves out those that it refuses."""
    context.may_take_long()
    every = [] if request.topics else [one.name for one in in_turns(list(context.broker.topics))]
    names = [name for name in in_turns(every) if may_describe(name)]
    return page(request, names, context, lambda name: _describe(name, context))


def page(
    request: DescribeTopicPartitionsRequest,
    every: Iterable[str],
    context: RequestContext,
    describe: Describe,
) -> DescribeTopicPartitionsResponse:
    """`every` are the names of all topics, where the request names none."""
    cursor = request.cursor
    if cursor is not None and not _is_valid(cursor, request):
        return _refusal(request)
    limit = context.broker.config.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, limit))
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in _names(request, every):
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = 0
        if cursor is not None and cursor.topic_name == name:
            first = cursor.partition_index
        answer = describe(name)
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
    names = (topic.name for topic in in_turns(request.topics))
    return cursor.partition_index >= 0 and (not request.topics or cursor.topic_name in names)


def _refusal(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The error code is in each named topic, since the response has no field for it."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=topic.name, error_code=ErrorCode.INVALID_REQUEST
            )
            for topic in in_turns(request.topics)
        ],
        next_cursor=None,
    )


def _names(request: DescribeTopicPartitionsRequest, every: Iterable[str]) -> Iterable[str]:
    """The requested topics, or all, from the cursor on."""
    named = freed_in_turns(dict.fromkeys(topic.name for topic in in_turns(request.topics)))
    names: Iterable[str] = named or every
    first = "" if request.cursor is None else request.cursor.topic_name
    return sorted_in_turns(name for name in names if name >= first)


def _describe(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    topic = context.broker.topics.find(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            name=name,
            error_code=why_missing(name),
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=_partitions(topic, context.broker.node_id),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def why_missing(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partitions(topic: Topic, node_id: int) -> list[DescribeTopicPartitionsResponsePartition]:
    return [_partition(topic, index, node_id) for index in in_turns(topic.known_indexes)]


def _partition(topic: Topic, index: int, node_id: int) -> DescribeTopicPartitionsResponsePartition:
    partition = topic.partitions.get(index)
    is_offline = partition is None or partition.directory.is_offline
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_offline else ErrorCode.NONE,
        partition_index=index,
        leader_id=-1 if is_offline else node_id,
        leader_epoch=-1 if partition is None else partition.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node_id] if is_offline else [],
    )
