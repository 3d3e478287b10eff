"""ListConfigResources (74): the names of resources that have settings (KIP-1142).

Version 0 lists client metrics only, and was called ListClientMetricsResources (KIP-714).
"""

from ottla.codec.fields import array, int8, int16, int32, string
from ottla.codec.schema import Message, Struct


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+")


class ConfigResource(Struct):
    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")
