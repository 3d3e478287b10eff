"""DeleteGroups, 0 to 2: removes groups without members, with their offsets (KIP-229).

Kafka's counterpart: `KafkaApis.handleDeleteGroupsRequest`.
"""

from ottla.base.turns import turn_dict
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    context.may_take_long()
    groups, at = context.broker.groups, context.at
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=groups.delete_group(group_id, at))
            for group_id in turn_dict((one, None) for one in request.groups_names)
        ]
    )
