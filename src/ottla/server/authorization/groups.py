"""Guards of groups: members, offsets, and who may see and delete them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.coordinator.consumer.requests import VisibleTopics
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from ottla.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.server.authorization.access import Access, Answer, Guard, Handle, joined
from ottla.server.dispatching.request_context import RequestContext, amended
from ottla.server.handling.operations import GROUP_OPERATIONS

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

FIRST_LIST_VERSION = 4
FIRST_GROUPS_VERSION = 8
FIRST_TOPIC_ID_VERSION = 10
TRANSACTION_KEY = 1
GROUP_KEY = 0


def by_group(response: Callable[..., Any]) -> Guard:
    """A guard of requests by members of a group."""

    def guard(request: Any, context: RequestContext, access: Access, handle: Handle) -> Answer:
        if access.group(Operation.READ, request.group_id):
            return handle(request, context)
        refusal: Answer = response(error_code=DENIED)
        return refusal

    return guard


def find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def refusal(key: str) -> ErrorCode:
        if request.key_type == TRANSACTION_KEY:
            if not access.transactional_id(Operation.DESCRIBE, key):
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif request.key_type == GROUP_KEY:
            if not access.group(Operation.DESCRIBE, key):
                return DENIED
        elif not access.cluster(Operation.CLUSTER_ACTION):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    if context.api_version < FIRST_LIST_VERSION:
        code = refusal(request.key)
        if code:
            return FindCoordinatorResponse(
                error_code=code, error_message=code.description, node_id=-1, port=-1
            )
        return handle(request, context)
    codes = turn_dict((key, refusal(key)) for key in request.coordinator_keys)
    request.coordinator_keys = turn_list(
        [one for one in request.coordinator_keys if not codes[one]]
    )
    refused = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=code.description)
        for key, code in codes.items()
        if code
    ]
    return joined(
        request.coordinator_keys,
        partial(handle, request, context),
        FindCoordinatorResponse(coordinators=refused),
        "coordinators",
    )


def _topic_name(topic: Any, context: RequestContext, access: Access) -> str | None:
    """The name of a topic in a request that may have its id only; `None` for an unknown id."""
    if context.api_version < FIRST_TOPIC_ID_VERSION:
        name: str = topic.name
        return name
    return access.name_of(topic.topic_id)


def _splits(
    topics: list[Any], operation: Operation, context: RequestContext, access: Access
) -> tuple[list[Any], list[Any]]:
    def may_use(topic: Any) -> bool:
        name = _topic_name(topic, context, access)
        return name is None or access.topic(operation, name)

    return access.split(topics, may_use)


def _refused_commit(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def offset_commit(
    request: OffsetCommitRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    code = TOPIC_DENIED
    if access.group(Operation.READ, request.group_id):
        allowed, denied = _splits(request.topics, Operation.READ, context, access)
    else:
        code, allowed, denied = DENIED, [], request.topics
    refusal = OffsetCommitResponse(topics=[_refused_commit(one, code) for one in denied])
    request.topics = allowed
    return joined(allowed, partial(handle, request, context), refusal, "topics")


def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    if context.api_version < FIRST_GROUPS_VERSION:
        return _fetch_of_one_group(request, context, access, handle)
    allowed: list[OffsetFetchRequestGroup] = turn_list()
    refused: list[OffsetFetchResponseGroup] = []
    denials: list[list[OffsetFetchResponseTopics] | None] = turn_list()
    for group in request.groups:
        if not access.group(Operation.DESCRIBE, group.group_id):
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=DENIED))
            continue
        allowed.append(group)
        if group.topics is None:
            denials.append(None)
            continue
        group.topics, denied = _splits(group.topics, Operation.DESCRIBE, context, access)
        denials.append(
            [
                OffsetFetchResponseTopics(
                    name=one.name,
                    topic_id=one.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=-1,
                            metadata="",
                            error_code=TOPIC_DENIED,
                        )
                        for index in one.partition_indexes
                    ],
                )
                for one in denied
            ]
        )
    request.groups = allowed

    def amend(response: OffsetFetchResponse) -> None:
        # By their places: a group may be named twice, the second time for all of its topics.
        for group, denied in zip(response.groups, denials, strict=True):
            if denied is None:
                group.topics = [one for one in group.topics if _sees(one, context, access)]
            else:
                group.topics.extend(denied)
        response.groups.extend(refused)

    return amended(handle(request, context), amend)


def _sees(topic: Any, context: RequestContext, access: Access) -> bool:
    name = _topic_name(topic, context, access)
    return name is None or access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _fetch_of_one_group(
    request: OffsetFetchRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    is_allowed = access.group(Operation.DESCRIBE, request.group_id)
    code, denied = TOPIC_DENIED, []
    if not is_allowed:
        code, denied = DENIED, request.topics or []
    elif request.topics is not None:
        request.topics, denied = _splits(request.topics, Operation.DESCRIBE, context, access)
    refused = [
        OffsetFetchResponseTopic(
            name=one.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=code
                )
                for index in one.partition_indexes
            ],
        )
        for one in denied
    ]
    if not is_allowed:
        return OffsetFetchResponse(error_code=DENIED, topics=refused)
    is_all = request.topics is None

    def amend(response: OffsetFetchResponse) -> None:
        if is_all:
            response.topics = [one for one in response.topics if _sees(one, context, access)]
        response.topics.extend(refused)

    return amended(handle(request, context), amend)


def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    if not access.group(Operation.DELETE, request.group_id):
        return OffsetDeleteResponse(error_code=DENIED)
    request.topics, denied = _splits(request.topics, Operation.READ, context, access)
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=one.partition_index, error_code=TOPIC_DENIED
                )
                for one in topic.partitions
            ],
        )
        for topic in denied
    ]

    if denied and not request.topics:
        return OffsetDeleteResponse(topics=refused)

    def amend(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            response.topics.extend(refused)

    return amended(handle(request, context), amend)


def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    request.groups_names, denied = access.split(
        request.groups_names, lambda one: access.group(Operation.DELETE, one)
    )
    refused = [DeletableGroupResult(group_id=one, error_code=DENIED) for one in denied]
    refusal = DeleteGroupsResponse(results=refused)
    return joined(request.groups_names, partial(handle, request, context), refusal, "results")


def list_groups(
    request: ListGroupsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def amend(response: ListGroupsResponse) -> None:
        if not access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            response.groups = [
                one
                for one in response.groups
                if access.sees(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
            ]

    return amended(handle(request, context), amend)


def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    request.groups, denied = access.split(
        request.groups, lambda one: access.group(Operation.DESCRIBE, one)
    )

    def amend(response: DescribeGroupsResponse) -> None:
        for group in response.groups:
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = access.operations(
                    GROUP_OPERATIONS, ResourceType.GROUP, group.group_id
                )
        response.groups.extend(DescribedGroup(group_id=one, error_code=DENIED) for one in denied)

    return amended(handle(request, context), amend)


def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def topics_of(group: DescribedConsumerGroup) -> set[str]:
        return {
            topic.topic_name
            for member in in_turns(group.members)
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }

    return describe_with_topics(
        request, access, partial(handle, request, context), DescribedConsumerGroup, topics_of
    )


def describe_with_topics(
    request: Any,
    access: Access,
    handle: Callable[[], Any],
    described: Callable[..., Any],
    topics_of: Callable[[Any], set[str]],
) -> Answer:
    """A group whose members have topics that the client may not describe is not shown (4.1).

    `described` makes a group of the response.
    """
    request.group_ids, denied = access.split(
        request.group_ids, lambda one: access.group(Operation.DESCRIBE, one)
    )
    sees = partial(access.sees, Operation.DESCRIBE, ResourceType.TOPIC)

    def amend(response: Any) -> None:
        for at, group in enumerate(response.groups):
            if not all(map(sees, topics_of(group))):
                response.groups[at] = described(
                    group_id=group.group_id,
                    error_code=TOPIC_DENIED,
                    error_message="The group has described topic(s) that the client is not "
                    "authorized to describe.",
                )
            elif request.include_authorized_operations and not group.error_code:
                group.authorized_operations = access.operations(
                    GROUP_OPERATIONS, ResourceType.GROUP, group.group_id
                )
        response.groups.extend(
            described(group_id=one, error_code=DENIED, error_message=DENIED.description)
            for one in denied
        )

    return amended(handle(), amend)


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    code = ErrorCode.NONE
    if not access.group(Operation.READ, request.group_id):
        code = DENIED
    else:
        names = dict.fromkeys(request.subscribed_topic_names or ())
        if not all(access.topic(Operation.DESCRIBE, one) for one in names):
            code = TOPIC_DENIED
    if code:
        return ConsumerGroupHeartbeatResponse(error_code=code, assignment=None)
    may_describe = partial(access.sees, Operation.DESCRIBE, ResourceType.TOPIC)
    return handle(request, context, VisibleTopics(may_describe, access.revision))
