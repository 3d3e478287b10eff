"""The handlers that differ in a member of a cluster."""

from importlib import import_module
from typing import Any, Final

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import module_name
from ottla.server.apis import CLUSTER_APIS
from ottla.server.request_context import Handler

OWN: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DELETE_RECORDS,
        *(one.key for one in CLUSTER_APIS.values()),
    }
)


def own_handler_of(api_key: ApiKey) -> Handler | None:
    """Returns `None` if a broker without a cluster answers in the same way."""
    if api_key not in OWN:
        return None
    module: Any = import_module(f"ottla.server.cluster.{module_name(api_key)}")
    handle: Handler = module.handle
    return handle
