"""ApiVersions, 0 to 4: as of a broker alone, with what brokers ask each other.

A cluster over ZooKeeper has no features of KRaft's: its brokers may be Kafka's.
"""

from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from ottla.server.apis import CLUSTER_APIS
from ottla.server.handlers import api_versions
from ottla.server.request_context import RequestContext


def handle(request: ApiVersionsRequest | None, context: RequestContext) -> ApiVersionsResponse:
    response = api_versions.handle(request, context)
    response.finalized_features, response.supported_features = [], []
    response.api_keys += [
        ApiVersion(api_key=api.key, min_version=api.oldest, max_version=api.newest)
        for api in CLUSTER_APIS.values()
    ]
    return response
