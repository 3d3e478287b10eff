"""ApiVersions, 0 to 4: which requests are answered in which versions.

A version to come is answered in version 0 with UNSUPPORTED_VERSION and the same list (KIP-511).
"""

import re

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.server.apis import APIS
from ottla.server.call import Call

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
    """`None` stands for a request in a version that nobody can read yet."""
    if request is None:
        return _answer(ErrorCode.UNSUPPORTED_VERSION)
    names = (request.client_software_name, request.client_software_version)
    if call.api_version >= 3 and not all(SOFTWARE_NAME.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _answer(ErrorCode.NONE)


def _answer(code: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=code,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.oldest, max_version=api.newest)
            for api in APIS.values()
            if api.is_told
        ],
    )
