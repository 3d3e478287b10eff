"""CreateAcls (30): adds access rules.

Types and operations are numbers: Kafka's `ResourceType`, `PatternType` (3 literal, from version 1,
KIP-290), `AclOperation` and `AclPermissionType`; 1 means any in a filter.
"""

from ottla.codec.fields import array, int8, int16, int32, string
from ottla.codec.schema import Message, Struct


class AclCreation(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Message, api_key=30, versions="0-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation, "0+")


class AclCreationResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")
