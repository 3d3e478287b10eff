"""CreateAcls, 0 to 3: adds access rules, which are durable and in effect when the response is sent.

Kafka's counterpart: `AclControlManager.createAcls`.
"""

from collections.abc import Sequence

from ottla.base.errors import ApiError
from ottla.base.turns import turn_list
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.acl_fields import read_acl, security_of


def handle(request: CreateAclsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    read = _read_acls(request, context)
    acls = turn_list([one for one in read if isinstance(one, Acl)])

    def answer(outcomes: Sequence[ApiError | None]) -> CreateAclsResponse:
        left = iter(outcomes)
        return CreateAclsResponse(
            results=[_result(one if isinstance(one, ApiError) else next(left)) for one in read]
        )

    return respond(context.broker.controller.create_acls(acls), answer) if acls else answer(())


def _read_acls(request: CreateAclsRequest, context: RequestContext) -> list[Acl | ApiError]:
    """Each rule, or the error of an invalid one."""
    read: list[Acl | ApiError] = turn_list()
    for one in request.creations:
        try:
            security_of(context)
            read.append(read_acl(one))
        except ApiError as error:
            read.append(error.without_traceback())
    return read


def _result(error: ApiError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=error.code, error_message=error.message)
