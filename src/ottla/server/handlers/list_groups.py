"""ListGroups, 0 to 5: the groups of this broker, by state (KIP-518) and by type (KIP-848).

While a broker is loading some of them the client must retry, as in Kafka.

Kafka's counterpart: `KafkaApis.handleListGroupsRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns, turn_dict
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.server.dispatching.request_context import RequestContext


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    context.may_take_long()
    groups = context.broker.groups
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = turn_dict((state.lower(), None) for state in request.states_filter)
    types = turn_dict((kind.lower(), None) for kind in request.types_filter)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.state,
                group_type=one.group_type,
            )
            for machine in groups.machines(context.at)
            for one in in_turns(machine.list_groups())
            if (not states or one.state.lower() in states)
            and (not types or one.group_type in types)
        ]
    )
