"""CreateAcls, 0 to 3: adds access rules, which are on disk and in effect when the response is sent.

Kafka's counterpart: `AclControlManager.createAcls`.
"""

from collections.abc import Iterable

from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.acls import Acl
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.server.acl_fields import read_acl, security_of
from ottla.server.request_context import RequestContext


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    context.may_take_long()
    read = read_acls(request, context)
    acls = freed_in_turns([one for one in in_turns(read) if isinstance(one, Acl)])
    failure: ApiError | None = None
    try:
        if acls:
            security_of(context).create_acls(acls)
    except ApiError as error:
        failure = error.without_traceback()
    return answer(one if isinstance(one, ApiError) else failure for one in in_turns(read))


def read_acls(request: CreateAclsRequest, context: RequestContext) -> list[Acl | ApiError]:
    """Each rule, or the error of an invalid one."""
    read: list[Acl | ApiError] = freed_in_turns([])
    for one in in_turns(request.creations):
        try:
            security_of(context)
            read.append(read_acl(one))
        except ApiError as error:
            read.append(error.without_traceback())
    return read


def answer(refusals: Iterable[ApiError | None]) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(one) for one in refusals])


def _result(error: ApiError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=error.code, error_message=error.message)
