"""IncrementalAlterConfigs (44): changes some settings and keeps the others (KIP-339)."""

from ottla.codec.fields import array, boolean, int8, int32, string
from ottla.codec.schema import Message, Struct
from ottla.protocol.messages.alter_configs import AlterConfigsResourceResponse


class AlterableConfig(Struct):
    """Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from it."""

    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
