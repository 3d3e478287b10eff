"""ApiVersions (18): the requests and versions that the broker supports.

The first request of a connection. The client may use a version that the broker does not know: the
response then has version 0 and UNSUPPORTED_VERSION (KIP-511). The response header never has tagged
fields, because the client reads it before it knows the broker's versions.
"""

from ottla.codec.fields import array, boolean, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    """Version 3 names the client software, for the broker's metrics (KIP-511)."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersion(Struct):
    """An API and its supported versions, both ends inclusive."""

    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Struct):
    """A feature and the levels that this broker supports."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    """A feature and the levels at which the cluster runs."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    """Versions 3 and above contain finalized features (KIP-584).

    In version 4 a feature may be supported from level 0; version 3 omits such features.
    """

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
