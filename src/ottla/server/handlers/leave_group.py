"""LeaveGroup, 0 to 5: one member leaves; from version 3 on, several are removed at once (KIP-345).

Kafka's counterpart: `KafkaApis.handleLeaveGroupRequest`.
"""

from collections.abc import Sequence

from ottla.base.turns import turn_list
from ottla.coordinator.classic.requests import LeaveAnswer, Leaving
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from ottla.server.dispatching.request_context import RequestContext

FIRST_BATCH_VERSION = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    if context.api_version < FIRST_BATCH_VERSION:
        only = Leaving(member_id=request.member_id)
        answer = _leave(request.group_id, (only,), context)
        return LeaveGroupResponse(error_code=answer.error or answer.errors[0])
    leaving = turn_list(
        [
            Leaving(member_id=one.member_id, instance_id=one.group_instance_id, reason=one.reason)
            for one in request.members
        ]
    )
    # A plain copy: where a change of a group may be interrupted is for the coordinator to say.
    answer = _leave(request.group_id, leaving[:], context)
    members = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=code)
        for one, code in zip(leaving, answer.errors, strict=False)
    ]
    return LeaveGroupResponse(error_code=answer.error, members=members)


def _leave(group_id: str, leaving: Sequence[Leaving], context: RequestContext) -> LeaveAnswer:
    groups, at = context.broker.groups, context.at
    with groups.changing(group_id, at) as machine:
        decision = machine.leave(group_id, leaving, at, context.may_take_long)
        return groups.carry_out(decision, at)
