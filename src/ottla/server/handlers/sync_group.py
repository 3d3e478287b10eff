"""SyncGroup, 0 to 5: the leader sends the assignment, and each member gets its part.

From version 5 a member must say which protocol it thinks is used (KIP-559).
Kafka's counterpart: `KafkaApis.handleSyncGroupRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import turn_dict
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.coordinator.classic.requests import SyncAnswer, SyncRequest
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

FIRST_PROTOCOL_VERSION = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> Message | PendingResponse:
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_PROTOCOL_VERSION and not says_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    groups, at = context.broker.groups, context.at
    waiting: Waiting[SyncAnswer] = Waiting()
    wanted = _request(request)
    with groups.changing(request.group_id, at) as machine:
        decision = machine.sync(wanted, waiting, at, context.may_take_long)
        answer = groups.carry_out_or_wait(decision, waiting, at)
    return respond(answer, _response)


def _request(request: SyncGroupRequest) -> SyncRequest:
    return SyncRequest(
        claim=MemberClaim(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
        ),
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=turn_dict((one.member_id, one.assignment) for one in request.assignments),
    )


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    error = answer.error
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # The rebalance was lost with the former coordinator. Clients give up at this error here
        # and join again at the other, so Kafka up to 3.9 answers so (`handleSyncGroup`).
        error = ErrorCode.REBALANCE_IN_PROGRESS
    return SyncGroupResponse(
        error_code=error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
