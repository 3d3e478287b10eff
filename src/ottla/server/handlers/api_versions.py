"""ApiVersions, 0 to 4: which requests are answered in which versions.

A version to come is answered in version 0 with UNSUPPORTED_VERSION and the same list (KIP-511).
From version 3 on it also lists the features of the cluster (KIP-584), by which producers know that
they may use transactions version 2 (KIP-890), and tools that there are groups of the new protocol.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.patterns import lazy_pattern
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.server.dispatching.apis import listed_apis
from ottla.server.dispatching.request_context import RequestContext

FIRST_FEATURES_VERSION = 3
FIRST_ZERO_LEVEL_VERSION = 4
"""Clients of earlier versions take a level of 0 for a mistake (KAFKA-17011)."""

SOFTWARE_NAME = lazy_pattern(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest | None, context: RequestContext) -> ApiVersionsResponse:
    """`None` stands for a request in an unknown version."""
    if request is None:
        return _answer(ErrorCode.UNSUPPORTED_VERSION, 0, context)
    names = (request.client_software_name, request.client_software_version)
    if context.api_version >= 3 and not all(SOFTWARE_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _answer(ErrorCode.NONE, context.api_version, context)


def _answer(code: ErrorCode, api_version: int, context: RequestContext) -> ApiVersionsResponse:
    view = context.broker.view
    features, finalized = view.features, view.finalized
    response = ApiVersionsResponse(
        error_code=code,
        api_keys=[
            ApiVersion(api_key=key, min_version=oldest, max_version=newest)
            for key, oldest, newest in listed_apis(context.broker, context.client.listener)
        ],
    )
    if api_version >= FIRST_FEATURES_VERSION:
        response.finalized_features_epoch = finalized.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.levels.items()
        ]
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=oldest, max_version=newest)
            for name, (oldest, newest) in features.items()
            if oldest > 0 or api_version >= FIRST_ZERO_LEVEL_VERSION
        ]
    return response
