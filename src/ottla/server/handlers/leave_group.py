"""LeaveGroup, 0 to 5: one member leaves; from version 3 on, several are removed at once (KIP-345).

Kafka's counterpart: `KafkaApis.handleLeaveGroupRequest`.
"""

from ottla.base.turns import freed_in_turns, in_turns
from ottla.coordinator.classic.requests import Leaving
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from ottla.server.request_context import RequestContext

FIRST_BATCH_VERSION = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    groups, at = context.broker.groups, context.at
    if context.api_version < FIRST_BATCH_VERSION:
        only = Leaving(member_id=request.member_id)
        answer = groups.carry_out(
            groups.machine_of(request.group_id, at).leave(request.group_id, (only,), at), at
        )
        return LeaveGroupResponse(error_code=answer.error or answer.errors[0])
    leaving = freed_in_turns(
        [
            Leaving(member_id=one.member_id, instance_id=one.group_instance_id, reason=one.reason)
            for one in in_turns(request.members)
        ]
    )
    answer = groups.carry_out(
        groups.machine_of(request.group_id, at).leave(request.group_id, leaving, at), at
    )
    members = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=code)
        for one, code in in_turns(zip(leaving, answer.errors, strict=False))
    ]
    return LeaveGroupResponse(error_code=answer.error, members=members)
