"""CreateAcls, 0 to 3: refused, since nothing would heed the rules.

Kafka's counterpart: `AclApis.handleCreateAcls` on a broker without an authorizer.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.server.request_context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in in_turns(request.creations)
        ]
    )
