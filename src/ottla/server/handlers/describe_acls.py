"""DescribeAcls, 0 to 3: the access rules that match a filter.

Version 0 knows literal patterns only: its response has only rules with literal patterns. Kafka's
counterpart: `AclApis.handleDescribeAcls`.
"""

from ottla.base.errors import ApiError
from ottla.base.turns import in_turns, turn_dict
from ottla.metadata.acls import Entry, PatternType, ResourcePattern
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.acl_fields import read_filter, security_of


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    context.may_take_long()
    try:
        security = security_of(context)
        wanted = read_filter(request)
        found = wanted.select(in_turns(wanted.among(security.image.acls)))
    except ApiError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    by_pattern: dict[ResourcePattern, list[Entry]] = turn_dict()
    for pattern, entry in in_turns(found):
        if context.api_version or pattern.pattern_type is PatternType.LITERAL:
            by_pattern.setdefault(pattern, []).append(entry)
    return DescribeAclsResponse(
        error_message=None,
        resources=[_resource(*one) for one in by_pattern.items()],
    )


def _resource(pattern: ResourcePattern, entries: list[Entry]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in in_turns(entries)
        ],
    )
