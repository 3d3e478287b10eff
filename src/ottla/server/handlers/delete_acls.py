"""DeleteAcls, 0 to 3: refused, since there are no rules.

Kafka's counterpart: `AclApis.handleDeleteAcls` on a broker without an authorizer.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.server.request_context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
            )
            for _ in in_turns(request.filters)
        ]
    )
