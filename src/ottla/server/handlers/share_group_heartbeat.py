"""ShareGroupHeartbeat, 1: members of a share group come, stay and go (KIP-932).

The states of partitions that nobody in the group has read begin first. Where they can begin at
once, as at a broker alone, the member has the partitions in the response to its first heartbeat;
with Kafka in that to its second. Kafka's counterpart: `KafkaApis.handleShareGroupHeartbeat`.
"""

from ottla.base.partitions import by_topic
from ottla.coordinator.share.requests import ShareHeartbeatAnswer, ShareHeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    broker = context.broker
    broker.groups.prepare(context.may_take_long)
    names = request.subscribed_topic_names
    heartbeat = ShareHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=None if names is None else frozenset(names),
        client_id=context.client_id or "",
        client_host=f"/{context.client.host}",
    )
    if broker.share_groups.may_assign_much(heartbeat, context.at):
        context.may_take_long()
    return _response(broker.share_groups.heartbeat(heartbeat, context.at))


def _response(answer: ShareHeartbeatAnswer) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
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
