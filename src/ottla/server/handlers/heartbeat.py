"""Heartbeat, 0 to 4: a member is alive, and learns from the error whether to join again.

Kafka's counterpart: `KafkaApis.handleHeartbeatRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.server.dispatching.request_context import RequestContext


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    claim = MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    groups, at = context.broker.groups, context.at
    decision = groups.machine_of(request.group_id, at).heartbeat(claim, at)
    error = groups.carry_out(decision, at).error
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Nobody's session runs yet, and no client expects this error here: as in Kafka's
        # GroupCoordinatorService.heartbeat, members learn with the next one what has become of
        # their group.
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)
