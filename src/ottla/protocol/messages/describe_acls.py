"""DescribeAcls (29): the access rules that match a filter.

Types and operations are numbers: Kafka's `ResourceType`, `PatternType` (3 literal, from version 1,
KIP-290), `AclOperation` and `AclPermissionType`; 1 means any in a filter.
"""

from ottla.codec.fields import array, int8, int16, int32, string
from ottla.codec.schema import Message, Struct


class DescribeAclsRequest(Message, api_key=29, versions="0-3", flexible="2+"):
    """A null name, principal or host matches everything."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class AclDescription(Struct):
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+")


class DescribeAclsResponse(Message, api_key=29, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")
