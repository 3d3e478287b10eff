"""DeleteGroups, 0 to 2: removes groups without members, with their offsets (KIP-229).

The share coordinators delete what they have of a share group first. Kafka's counterpart:
`KafkaApis.handleDeleteGroupsRequest`.
"""

from collections.abc import Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import turn_dict
from ottla.codec.schema import Message
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.server.dispatching.request_context import (
    PendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.committing import when_committed


def handle(request: DeleteGroupsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    group_ids = turn_dict((one, None) for one in request.groups_names)
    states = context.broker.share_groups.delete_states(group_ids, context.at)
    if states is None:
        return _delete(group_ids, {}, context)

    def answer(errors: Mapping[str, ErrorCode]) -> Message | PendingResponse:
        return when_committed(_delete(group_ids, errors, context), list(group_ids), context)

    return PendingAnswer(states, answer, takes_long=True)


def _delete(
    group_ids: Iterable[str], errors: Mapping[str, ErrorCode], context: RequestContext
) -> DeleteGroupsResponse:
    groups, at = context.broker.groups, context.at
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(
                group_id=group_id,
                error_code=errors.get(group_id) or groups.delete_group(group_id, at),
            )
            for group_id in group_ids
        ]
    )
