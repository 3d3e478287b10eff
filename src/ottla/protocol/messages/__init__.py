"""Kafka's requests and responses: one file per API, with all its versions.

A file is imported when its API is first used, since most connections use a handful of them. Start
at `produce.py`.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey

DECLARED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.INIT_PRODUCER_ID,
    }
)
"""The APIs that have a file here; the others pass between brokers and controllers only."""


@cache
def request_class(api_key: int) -> type[Message]:
    """The request of an API; raises `ApiError` (UNSUPPORTED_VERSION) when it has no file here."""
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """The response of an API; raises `ApiError` (UNSUPPORTED_VERSION) when it has no file here."""
    return _message_class(api_key, "Response")


def module_name(api_key: ApiKey) -> str:
    """Kafka's name of the API in the house's spelling: the file, and the stem of its classes."""
    return api_key.name.lower().replace("txn", "transaction")


def _message_class(api_key: int, kind: str) -> type[Message]:
    if api_key not in DECLARED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"no messages for API key {api_key}")
    name = module_name(ApiKey(api_key))
    module: Any = import_module(f"ottla.protocol.messages.{name}")
    stem = "".join(part.capitalize() for part in name.split("_"))
    found: type[Message] = getattr(module, stem + kind)
    return found
