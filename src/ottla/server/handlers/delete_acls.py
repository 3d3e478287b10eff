"""DeleteAcls, 0 to 3: removes the access rules that match filters.

Kafka's counterpart: `AclControlManager.deleteAcls`.
"""

from collections.abc import Sequence

from ottla.base.errors import ApiError
from ottla.base.turns import in_turns, turn_list
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl, AclFilter
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.acl_fields import read_filter, security_of


def handle(request: DeleteAclsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    read = _read_filters(request, context)
    filters = turn_list([one for one in read if isinstance(one, AclFilter)])

    def answer(gone: Sequence[list[Acl] | ApiError]) -> DeleteAclsResponse:
        matched = iter(gone)
        return DeleteAclsResponse(
            filter_results=[
                _result(one if isinstance(one, ApiError) else next(matched)) for one in read
            ]
        )

    if not filters:
        return answer(())
    return respond(context.broker.controller.delete_acls(filters), answer)


def _read_filters(
    request: DeleteAclsRequest, context: RequestContext
) -> list[AclFilter | ApiError]:
    """Each filter, or the error of an invalid one."""
    read: list[AclFilter | ApiError] = turn_list()
    for one in request.filters:
        try:
            security_of(context)
            read.append(read_filter(one))
        except ApiError as error:
            read.append(error.without_traceback())
    return read


def _result(acls: list[Acl] | ApiError) -> DeleteAclsFilterResult:
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
