"""DescribeGroups, 0 to 6: state and members of classic groups.

A group that does not exist, or is of the new protocol, is "Dead", and from version 6 also an error
(KIP-1043).
Kafka's counterpart: `KafkaApis.handleDescribeGroupsRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.coordinator.classic.requests import GroupDescription
from ottla.coordinator.classic.state import GroupState
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.operations import GROUP_OPERATIONS

FIRST_NOT_FOUND_VERSION = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    context.may_take_long()
    response = DescribeGroupsResponse(groups=[_describe(one, context) for one in request.groups])
    if request.include_authorized_operations:
        for group in in_turns(response.groups):
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return response


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    groups = context.broker.groups.machine_of(group_id, context.at)
    found = groups.describe(group_id)
    if found is not None:
        return _group(found)
    if refusal := groups.refusal(group_id):
        return DescribedGroup(group_id=group_id, error_code=refusal)
    group = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if context.api_version >= FIRST_NOT_FOUND_VERSION:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_other = groups.describe_consumer(group_id) is not None
        group.error_message = (
            f"Group {group_id} is not a classic group."
            if is_other
            else f"Group {group_id} not found."
        )
    return group


def _group(found: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        group_id=found.group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ],
    )
