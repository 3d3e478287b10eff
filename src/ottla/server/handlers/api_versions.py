"""ApiVersions, 0 to 4: which requests are answered in which versions.

A version to come is answered in version 0 with UNSUPPORTED_VERSION and the same list (KIP-511).
From version 3 on it also tells the features of the cluster (KIP-584): `transaction.version` 2, by
which producers know that they may run transactions so (KIP-890).
"""

import re

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.server.apis import APIS
from ottla.server.call import Call

TRANSACTION_VERSION = "transaction.version"
LEVEL = 2

FIRST_FEATURES_VERSION = 3
FIRST_ZERO_LEVEL_VERSION = 4
"""Clients before it take a level of 0 for a mistake (KAFKA-17011)."""

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
    """`None` stands for a request in a version that nobody can read yet."""
    if request is None:
        return _answer(ErrorCode.UNSUPPORTED_VERSION, 0)
    names = (request.client_software_name, request.client_software_version)
    if call.api_version >= 3 and not all(SOFTWARE_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _answer(ErrorCode.NONE, call.api_version)


def _answer(code: ErrorCode, api_version: int) -> ApiVersionsResponse:
    response = ApiVersionsResponse(
        error_code=code,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.oldest, max_version=api.newest)
            for api in APIS.values()
            if api.is_told
        ],
    )
    if api_version >= FIRST_FEATURES_VERSION:
        response.finalized_features_epoch = 0
        response.finalized_features = [
            FinalizedFeatureKey(
                name=TRANSACTION_VERSION, min_version_level=LEVEL, max_version_level=LEVEL
            )
        ]
    if api_version >= FIRST_ZERO_LEVEL_VERSION:
        response.supported_features = [
            SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=LEVEL)
        ]
    return response
