"""Access rules and filters of requests as values, and back.

Kafka's counterparts: `CreateAclsRequest.aclBinding`, `DescribeAclsResponse.aclsResources`.
"""

from typing import TYPE_CHECKING, Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    known,
)
from ottla.protocol.messages.create_acls import AclCreation
from ottla.server.dispatching.request_context import RequestContext

if TYPE_CHECKING:
    from ottla.broker.security.security import Security

NO_AUTHORIZER = "No Authorizer is configured."


def security_of(context: RequestContext) -> "Security":
    """Raises `ApiError` on a broker without an authorizer."""
    security = context.broker.security
    if security.authorizer is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return security


def read_acl(one: AclCreation) -> Acl:
    """Raises `ApiError` for an invalid rule."""
    acl = Acl(
        ResourcePattern(
            known(ResourceType, one.resource_type),
            known(PatternType, one.resource_pattern_type),
            one.resource_name,
        ),
        Entry(
            one.principal,
            one.host,
            known(Operation, one.operation),
            known(Permission, one.permission_type),
        ),
    )
    acl.check()
    return acl


def read_filter(one: Any) -> AclFilter:
    """Of DescribeAcls or DeleteAcls; raises `ApiError`."""
    found = AclFilter(
        resource_type=known(ResourceType, one.resource_type_filter),
        name=one.resource_name_filter,
        pattern_type=known(PatternType, one.pattern_type_filter),
        principal=one.principal_filter,
        host=one.host_filter,
        operation=known(Operation, one.operation),
        permission=known(Permission, one.permission_type),
    )
    found.check()
    return found
