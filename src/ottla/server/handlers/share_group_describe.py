"""ShareGroupDescribe, 1: share groups with what their members have.

Kafka's counterpart: `KafkaApis.handleShareGroupDescribe`.
"""

from collections.abc import Iterable

from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.requests import ShareGroupDescription, ShareMemberDescription
from ottla.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.assignments import named_topics
from ottla.server.handling.operations import GROUP_OPERATIONS

ASSIGNOR = "simple"


def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    context.may_take_long()
    groups = [_describe(group_id, context) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    groups = context.broker.groups.machine_of(group_id, context.at)
    try:
        return _group(groups.shares.describe(group_id), context)
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _group(found: ShareGroupDescription, context: RequestContext) -> DescribedGroup:
    return DescribedGroup(
        group_id=found.group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(one, context) for one in in_turns(found.members)],
    )


def _member(found: ShareMemberDescription, context: RequestContext) -> Member:
    return Member(
        member_id=found.member_id,
        rack_id=found.rack_id,
        member_epoch=found.epoch,
        client_id=found.client_id,
        client_host=found.client_host,
        subscribed_topic_names=list(found.topic_names),
        assignment=_assignment(found.assigned, context),
    )


def _assignment(partitions: Iterable[TopicIdPartition], context: RequestContext) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, name, indexes in named_topics(partitions, context)
        ]
    )
