"""Heartbeat, 0 to 4: a member is alive, and learns from the error whether to join again.

Kafka's counterpart: `KafkaApis.handleHeartbeatRequest`.
"""

from ottla.coordinator.requests import MemberClaim
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.server.request_context import RequestContext


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    claim = MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    return HeartbeatResponse(error_code=context.broker.groups.heartbeat(claim, context.at).error)
