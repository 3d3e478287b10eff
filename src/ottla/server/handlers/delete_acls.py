"""DeleteAcls, 0 to 3: removes the access rules that match filters, at once and on the disks.

Kafka's counterpart: `AclControlManager.deleteAcls`.
"""

from collections.abc import Iterable
from itertools import repeat

from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.acls import Acl, AclFilter
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.server.acl_fields import read_filter, security_of
from ottla.server.request_context import RequestContext


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    context.may_take_long()
    read = read_filters(request, context)
    filters = freed_in_turns([one for one in in_turns(read) if isinstance(one, AclFilter)])
    failure: ApiError | None = None
    gone: Iterable[list[Acl]] = repeat([])
    try:
        if filters:
            gone = security_of(context).delete_acls(filters)
    except ApiError as error:
        failure = error.without_traceback()
    matched = iter(gone)
    return DeleteAclsResponse(
        filter_results=[
            result_of(one if isinstance(one, ApiError) else failure or next(matched))
            for one in in_turns(read)
        ]
    )


def read_filters(request: DeleteAclsRequest, context: RequestContext) -> list[AclFilter | ApiError]:
    """Each filter, or the error of an invalid one."""
    read: list[AclFilter | ApiError] = freed_in_turns([])
    for one in in_turns(request.filters):
        try:
            security_of(context)
            read.append(read_filter(one))
        except ApiError as error:
            read.append(error.without_traceback())
    return read


def result_of(acls: list[Acl] | ApiError) -> DeleteAclsFilterResult:
    """The rules that a filter has removed, or its error."""
    if isinstance(acls, ApiError):
        return DeleteAclsFilterResult(error_code=acls.code, error_message=acls.message)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in in_turns(acls)
        ],
    )
