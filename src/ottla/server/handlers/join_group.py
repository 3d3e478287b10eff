"""JoinGroup, 0 to 9: enters a group, and is answered when all its members have.

Version 0 has one timeout for both purposes. From version 4 a new member first gets its id
(KIP-394), from version 9 a static leader that comes back need not assign (KIP-814).
Kafka's counterpart: `KafkaApis.handleJoinGroupRequest`.
"""

from ottla.base.turns import in_turns, is_large
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

FIRST_REBALANCE_TIMEOUT_VERSION = 1
FIRST_MEMBER_ID_REQUIRED_VERSION = 4
FIRST_NULL_PROTOCOL_VERSION = 7
FIRST_SKIP_ASSIGNMENT_VERSION = 9


def handle(request: JoinGroupRequest, context: RequestContext) -> Message | PendingResponse:
    groups, at = context.broker.groups, context.at
    groups.prepare(context.may_take_long)
    waiting: Waiting[JoinAnswer] = Waiting()
    wanted = _request(request, context)
    with groups.changing(request.group_id, at) as machine:
        decision = machine.join(wanted, waiting, at, context.may_take_long)
        answer = groups.carry_out_or_wait(decision, waiting, at)
    return respond(answer, lambda known: _response(known, context))


def _request(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    has_both_timeouts = context.api_version >= FIRST_REBALANCE_TIMEOUT_VERSION
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if has_both_timeouts
        else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols={one.name: one.metadata for one in request.protocols},
        requires_member_id=context.api_version >= FIRST_MEMBER_ID_REQUIRED_VERSION,
        can_skip_assignment=context.api_version >= FIRST_SKIP_ASSIGNMENT_VERSION,
        reason=request.reason,
    )


def _response(answer: JoinAnswer, context: RequestContext) -> JoinGroupResponse:
    if is_large(answer.members):
        context.may_take_long()
    protocol = answer.protocol
    no_protocol = None if context.api_version >= FIRST_NULL_PROTOCOL_VERSION else ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=no_protocol if protocol is None else protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                metadata=one.protocols[protocol or ""],
            )
            for one in in_turns(answer.members)
        ],
    )
