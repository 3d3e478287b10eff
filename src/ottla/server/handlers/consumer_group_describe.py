"""ConsumerGroupDescribe, 0 to 1: groups of the new protocol with what their members have.

Version 1 says which protocol a member speaks: all of them the new one.
Kafka's counterpart: `KafkaApis.handleConsumerGroupDescribe`.
"""

from collections.abc import Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
)
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.assignments import named_topics
from ottla.server.handling.operations import GROUP_OPERATIONS

SPEAKS_THE_NEW_PROTOCOL = 1


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    context.may_take_long()
    groups = [_describe(group_id, context) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    groups = context.broker.groups.machine_of(group_id, context.at)
    if refusal := groups.refusal(group_id):
        return DescribedGroup(group_id=group_id, error_code=refusal)
    found = groups.describe_consumer(group_id)
    if found is not None:
        return _group(found, context)
    is_other = groups.describe(group_id) is not None
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a consumer group."
        if is_other
        else f"Group {group_id} not found.",
    )


def _group(found: ConsumerGroupDescription, context: RequestContext) -> DescribedGroup:
    return DescribedGroup(
        group_id=found.group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(one, context) for one in in_turns(found.members)],
    )


def _member(found: ConsumerMemberDescription, context: RequestContext) -> Member:
    return Member(
        member_id=found.member_id,
        instance_id=found.instance_id,
        rack_id=found.rack_id,
        member_epoch=found.epoch,
        client_id=found.client_id,
        client_host=found.client_host,
        subscribed_topic_names=list(found.topic_names),
        subscribed_topic_regex=found.topic_regex,
        assignment=_assignment(found.assigned, context),
        target_assignment=_assignment(found.target, context),
        member_type=SPEAKS_THE_NEW_PROTOCOL,
    )


def _assignment(partitions: Iterable[TopicIdPartition], context: RequestContext) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, name, indexes in named_topics(partitions, context)
        ]
    )
