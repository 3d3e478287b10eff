"""DescribeAcls, 0 to 3: there are no access rules, and everybody may do everything.

Kafka's counterpart: `AclApis.handleDescribeAcls` on a broker without an authorizer.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.server.request_context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured."


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
