"""CreateAcls, 0 to 3: adds access rules in ZooKeeper, for all brokers.

Kafka's counterpart: `AclAuthorizer.createAcls`.
"""

from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.acls import Acl
from ottla.broker.security.registered import entry_of, resource_of
from ottla.controller.acls import AclChanges, Entries
from ottla.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.registries.access import AclEntry, ResourceName
from ottla.registries.paths import is_node_name
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.create_acls import answer, read_acls
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: CreateAclsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    wanted: dict[ResourceName, list[AclEntry]] = {}
    places: list[ResourceName | ApiError] = []
    for one in in_turns(read_acls(request, context)):
        place = one if isinstance(one, ApiError) else _resource_of(one)
        places.append(place)
        if isinstance(one, Acl) and isinstance(place, ResourceName):
            wanted.setdefault(place, []).append(entry_of(one))
    changes = {place: partial(_add, new) for place, new in in_turns(wanted.items())}

    def answered(results: AclChanges) -> CreateAclsResponse:
        freed_in_turns(wanted)
        freed_in_turns(changes)
        freed_in_turns(places)
        freed_in_turns(results)
        refusals = (one if isinstance(one, ApiError) else results[one] for one in in_turns(places))
        return answer(one if isinstance(one, ApiError) else None for one in refusals)

    return PendingAnswer(membership_of(context).change_acls(changes), answered, takes_long=True)


def _resource_of(acl: Acl) -> ResourceName | ApiError:
    name = acl.pattern.name
    if not is_node_name(name):
        text = f"ACL binding contains invalid resource name: {name}"
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    return resource_of(acl.pattern)


def _add(new: list[AclEntry], known: Entries) -> Entries:
    return tuple(dict.fromkeys((*known, *new)))
