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

OF_KRAFT: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What brokers and controllers of a KRaft cluster say to each other, and what tools ask them."""

YOUNG: Final = frozenset(
    {
        *range(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_ACKNOWLEDGE + 1),
        *range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_OFFSETS + 1),
    }
)
"""Share groups (KIP-932) and streams groups (KIP-1071)."""

DECLARED: Final = frozenset(ApiKey) - OF_KRAFT - YOUNG
"""The APIs that have a file here."""


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
