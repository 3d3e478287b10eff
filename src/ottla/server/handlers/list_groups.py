"""ListGroups, 0 to 5: the groups of this broker, by state (KIP-518) and by type (KIP-848).

Kafka's counterpart: `KafkaApis.handleListGroupsRequest`.
"""

from ottla.base.turns import freed_in_turns, in_turns
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.server.request_context import RequestContext


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    context.may_take_long()
    states = freed_in_turns(
        dict.fromkeys(state.lower() for state in in_turns(request.states_filter))
    )
    types = freed_in_turns(dict.fromkeys(kind.lower() for kind in in_turns(request.types_filter)))
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.state,
                group_type=one.group_type,
            )
            for one in in_turns(context.broker.groups.loaded(context.at).list_groups())
            if (not states or one.state.lower() in states)
            and (not types or one.group_type in types)
        ]
    )
