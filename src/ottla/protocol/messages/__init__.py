"""Kafka's requests and responses: one module per API, with all its versions.

A module is imported when its API is first used, because most connections use only a few. Start at
`produce.py`.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey

OF_STREAMS: Final = frozenset({ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE})
"""Requests of streams groups (KIP-1071)."""

DECLARED: Final = frozenset(ApiKey) - OF_STREAMS
"""The APIs that have a module here."""


@cache
def request_class(api_key: int) -> type[Message]:
    """The request class of an API; raises `ApiError` (UNSUPPORTED_VERSION) if it has no module
    here.
    """
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """The response class of an API; raises `ApiError` (UNSUPPORTED_VERSION) if it has no module
    here.
    """
    return _message_class(api_key, "Response")


def module_name(api_key: ApiKey) -> str:
    """The module of an API, which is also the stem of its classes."""
    return api_key.name.lower().replace("txn", "transaction")


def _message_class(api_key: int, kind: str) -> type[Message]:
    if api_key not in DECLARED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"no messages for API key {api_key}")
    name = module_name(ApiKey(api_key))
    module: Any = import_module(f"ottla.protocol.messages.{name}")
    stem = "".join(part.capitalize() for part in name.split("_"))
    found: type[Message] = getattr(module, stem + kind)
    return found
