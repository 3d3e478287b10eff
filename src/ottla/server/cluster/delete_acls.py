"""DeleteAcls, 0 to 3: removes the access rules that match filters from ZooKeeper, for all brokers.

The rules that this broker knows say which resources are looked at; of those what stands in
ZooKeeper counts. Kafka's counterpart: `AclAuthorizer.deleteAcls`.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.acls import (
    Acl,
    AclFilter,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from ottla.broker.security.registered import acls_of, resource_of
from ottla.controller.acls import AclChanges, ChangedAcls, Entries
from ottla.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.registries.access import AclEntry, ResourceName
from ottla.registries.paths import is_node_name
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.delete_acls import read_filters, result_of
from ottla.server.request_context import PendingAnswer, RequestContext

ONE_PATTERN = (PatternType.LITERAL, PatternType.PREFIXED)


def handle(request: DeleteAclsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    # Copied, since the answer needs them when the request is over.
    read = list(in_turns(read_filters(request, context)))
    filters = [one for one in in_turns(read) if isinstance(one, AclFilter)]
    changes = {
        resource: partial(_remove, filters, resource)
        for resource in in_turns(_resources(filters, context.broker.security.state.acls))
    }

    def answered(results: AclChanges) -> DeleteAclsResponse:
        freed_in_turns(read)
        freed_in_turns(filters)
        freed_in_turns(changes)
        freed_in_turns(results)
        removed: list[Acl] = freed_in_turns([])
        failure: ApiError | None = None
        for resource, one in in_turns(results.items()):
            if isinstance(one, ChangedAcls):
                gone = set(one.before) - set(one.after)
                removed += acls_of(resource, (entry for entry in one.before if entry in gone))
            else:
                failure = one
        return DeleteAclsResponse(
            filter_results=[
                result_of(
                    one if isinstance(one, ApiError) else failure or one.select(in_turns(removed))
                )
                for one in in_turns(read)
            ]
        )

    return PendingAnswer(membership_of(context).change_acls(changes), answered, takes_long=True)


def _resources(filters: Sequence[AclFilter], acls: Iterable[Acl]) -> dict[ResourceName, None]:
    """The resources of matching rules, and those that a filter names."""
    patterns = dict.fromkeys(
        one.pattern for one in in_turns(acls) if any(wanted.matches(one) for wanted in filters)
    )
    for one in filters:
        is_specific = one.resource_type is not ResourceType.ANY and one.pattern_type in ONE_PATTERN
        if is_specific and one.name is not None and is_node_name(one.name):
            patterns[ResourcePattern(one.resource_type, one.pattern_type, one.name)] = None
    return dict.fromkeys(map(resource_of, patterns))


def _remove(filters: Sequence[AclFilter], resource: ResourceName, known: Entries) -> Entries:
    return tuple(one for one in known if not _is_matched(filters, resource, one))


def _is_matched(filters: Sequence[AclFilter], resource: ResourceName, entry: AclEntry) -> bool:
    """Rules of an unknown kind stay."""
    try:
        (acl,) = acls_of(resource, (entry,))
    except ValueError:
        return False
    return any(one.matches(acl) for one in filters)
