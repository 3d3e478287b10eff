"""ConsumerGroupHeartbeat, 0 to 1: the one request of members in the new group protocol (KIP-848).

From version 1 members bring an id of their own (KIP-1082), and may subscribe by an expression.
Kafka's counterpart: `KafkaApis.handleConsumerGroupHeartbeat`.
"""

from ottla.base.partitions import by_topic
from ottla.coordinator.consumer.requests import (
    EVERY_TOPIC,
    HeartbeatAnswer,
    HeartbeatRequest,
    VisibleTopics,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.server.dispatching.request_context import RequestContext

FIRST_OWN_ID_VERSION = 1


def handle(
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    visible: VisibleTopics = EVERY_TOPIC,
) -> ConsumerGroupHeartbeatResponse:
    groups, at = context.broker.groups, context.at
    groups.prepare(context.may_take_long)
    decision = groups.machine_of(request.group_id, at).consumer_heartbeat(
        _request(request, context, visible), at
    )
    return _response(groups.carry_out(decision, at))


def _request(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, visible: VisibleTopics
) -> HeartbeatRequest:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((one.topic_id, index) for one in owned for index in one.partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.client.host}",
        must_bring_id=context.api_version >= FIRST_OWN_ID_VERSION,
        visible=visible,
    )


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None,
    )
    if answer.assigned is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(answer.assigned).items()
            ]
        )
    return response
