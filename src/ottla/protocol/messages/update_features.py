"""UpdateFeatures (57): raises or lowers the feature levels of the cluster (KIP-584)."""

from ottla.codec.fields import array, boolean, int8, int16, int32, string
from ottla.codec.schema import Message, Struct


class FeatureUpdateKey(Struct):
    """Upgrade types: 1 upgrade only, 2 safe downgrade, 3 unsafe downgrade; 0 removes a feature."""

    feature: str = string("0+")
    max_version_level: int = int16("0+")
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+")
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    """All features succeed or fail together, so version 2 has no results per feature."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
