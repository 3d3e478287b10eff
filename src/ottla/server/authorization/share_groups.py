"""Guards of share groups: members, descriptions, and where the groups are in topics."""

from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns, turn_list
from ottla.metadata.acls import Operation, ResourceType
from ottla.protocol.messages import alter_share_group_offsets as altering
from ottla.protocol.messages import delete_share_group_offsets as deleting
from ottla.protocol.messages import describe_share_group_offsets as describing
from ottla.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
)
from ottla.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ottla.server.authorization.access import Access, Answer, Handle
from ottla.server.authorization.groups import DENIED, TOPIC_DENIED, describe_with_topics
from ottla.server.dispatching.request_context import RequestContext, amended


def heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    code = ErrorCode.NONE
    if not access.group(Operation.READ, request.group_id):
        code = DENIED
    else:
        names = dict.fromkeys(request.subscribed_topic_names or ())
        if not all(access.topic(Operation.DESCRIBE, one) for one in names):
            code = TOPIC_DENIED
    if code:
        return ShareGroupHeartbeatResponse(error_code=code, assignment=None)
    return handle(request, context)


def describe(
    request: ShareGroupDescribeRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def topics_of(group: DescribedGroup) -> set[str]:
        return {
            topic.topic_name
            for member in in_turns(group.members)
            for topic in member.assignment.topic_partitions
        }

    return describe_with_topics(
        request, access, partial(handle, request, context), DescribedGroup, topics_of
    )


def describe_offsets(
    request: describing.DescribeShareGroupOffsetsRequest,
    context: RequestContext,
    access: Access,
    handle: Handle,
) -> Answer:
    allowed: list[describing.WantedGroup] = turn_list()
    refused: list[describing.DescribedGroup] = []
    denials: list[list[describing.DescribedTopic] | None] = turn_list()
    for group in request.groups:
        if not access.group(Operation.DESCRIBE, group.group_id):
            refused.append(
                describing.DescribedGroup(
                    group_id=group.group_id, error_code=DENIED, error_message=DENIED.description
                )
            )
            continue
        allowed.append(group)
        if group.topics is None:
            denials.append(None)
            continue
        group.topics, denied = access.split(
            group.topics, lambda one: access.topic(Operation.DESCRIBE, one.topic_name)
        )
        denials.append([_hidden(one) for one in denied])
    request.groups = allowed

    def amend(response: describing.DescribeShareGroupOffsetsResponse) -> None:
        # By their places: a group may be named twice, the second time for all of its topics.
        for group, denied in zip(response.groups, denials, strict=True):
            if denied is None:
                sees = partial(access.sees, Operation.DESCRIBE, ResourceType.TOPIC)
                group.topics = [one for one in group.topics if sees(one.topic_name)]
            else:
                group.topics.extend(denied)
        response.groups.extend(refused)

    return amended(handle(request, context), amend)


def _hidden(topic: describing.WantedTopic) -> describing.DescribedTopic:
    return describing.DescribedTopic(
        topic_name=topic.topic_name,
        partitions=[
            describing.DescribedPartition(
                partition_index=index,
                start_offset=-1,
                error_code=TOPIC_DENIED,
                error_message=TOPIC_DENIED.description,
            )
            for index in topic.partitions
        ],
    )


def alter_offsets(
    request: altering.AlterShareGroupOffsetsRequest,
    context: RequestContext,
    access: Access,
    handle: Handle,
) -> Answer:
    if not access.group(Operation.READ, request.group_id):
        return altering.AlterShareGroupOffsetsResponse(
            error_code=DENIED, error_message=DENIED.description
        )
    request.topics, denied = access.split(
        request.topics, lambda one: access.topic(Operation.READ, one.topic_name)
    )
    refused = [
        altering.AlteredTopic(
            topic_name=topic.topic_name,
            partitions=[
                altering.AlteredPartition(
                    partition_index=one.partition_index,
                    error_code=TOPIC_DENIED,
                    error_message=TOPIC_DENIED.description,
                )
                for one in topic.partitions
            ],
        )
        for topic in denied
    ]
    if denied and not request.topics:
        return altering.AlterShareGroupOffsetsResponse(responses=refused)

    def amend(response: altering.AlterShareGroupOffsetsResponse) -> None:
        if not response.error_code:
            response.responses.extend(refused)

    return amended(handle(request, context), amend)


def delete_offsets(
    request: deleting.DeleteShareGroupOffsetsRequest,
    context: RequestContext,
    access: Access,
    handle: Handle,
) -> Answer:
    if not access.group(Operation.DELETE, request.group_id):
        return deleting.DeleteShareGroupOffsetsResponse(
            error_code=DENIED, error_message=DENIED.description
        )
    request.topics, denied = access.split(
        request.topics, lambda one: access.topic(Operation.READ, one.topic_name)
    )
    refused = [
        deleting.DeletedTopic(
            topic_name=one.topic_name,
            error_code=TOPIC_DENIED,
            error_message=TOPIC_DENIED.description,
        )
        for one in denied
    ]
    if denied and not request.topics:
        return deleting.DeleteShareGroupOffsetsResponse(responses=refused)

    def amend(response: deleting.DeleteShareGroupOffsetsResponse) -> None:
        if not response.error_code:
            response.responses.extend(refused)

    return amended(handle(request, context), amend)
