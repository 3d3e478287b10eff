"""The settings of the client that reads from brokers; docs/spark.md lists them.

No setting is ignored: an unknown one is refused by name.
"""

from collections.abc import Mapping

from ottla.base.addresses import Address
from ottla.base.errors import UnknownNameError, UserError
from ottla.base.values import dataclass
from ottla.client.connecting.connection import CLIENT_ID
from ottla.client.connecting.security import (
    PLAINTEXT,
    SECURITY_SETTINGS,
    Security,
    parse_security,
    split_security,
)
from ottla.sources.client_options import CLIENT_PREFIX
from ottla.sources.option_texts import (
    Fields,
    parse_addresses,
    parse_count,
    parse_plain,
    parse_seconds,
    read_fields,
)

GROUP_ID = "group.id"
"""Of the group for which a stream commits; `sources/stream` reads it."""

FETCH_SIZE = 4 << 20
"""The maximum size of a response: large enough to hide the round trip behind its processing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """The brokers to read from, and the sizes of its requests."""

    bootstrap: tuple[Address, ...]
    client_id: str = CLIENT_ID
    request_timeout_s: float = 30.0
    fetch_size: int = FETCH_SIZE
    partition_fetch_size: int = FETCH_SIZE
    min_size: int = 1
    max_wait_ms: int = 500
    security: Security = PLAINTEXT

    @property
    def answer_size(self) -> int:
        """The maximum size of a response; for one partition per request, so both limits apply."""
        return min(FETCH_SIZE, self.fetch_size, self.partition_fetch_size)


def parse_wire_settings(client: Mapping[str, str]) -> WireSettings:
    """Raises `UserError` for an unknown setting, and for an invalid value."""
    security, rest = split_security(client)
    for name in rest:
        if name not in _KNOWN and name != GROUP_ID:
            options = [CLIENT_PREFIX + one for one in SETTINGS]
            raise UnknownNameError("option", CLIENT_PREFIX + name, options)
    fields = read_fields(rest, _KNOWN, CLIENT_PREFIX)
    return WireSettings(security=parse_security(security), **fields)


def _int32(option: str, text: str) -> int:
    if parse_count(option, text) > _MAX_INT:
        raise UserError(f"option {option} takes at most {_MAX_INT}, not {text}")
    return int(text)


_MAX_INT = 2**31 - 1

_KNOWN: Fields = {
    "bootstrap.servers": ("bootstrap", parse_addresses),
    "client.id": ("client_id", parse_plain),
    "request.timeout.ms": ("request_timeout_s", parse_seconds),
    "socket.timeout.ms": ("request_timeout_s", parse_seconds),
    "fetch.max.bytes": ("fetch_size", _int32),
    "max.partition.fetch.bytes": ("partition_fetch_size", _int32),
    "fetch.min.bytes": ("min_size", _int32),
    "fetch.max.wait.ms": ("max_wait_ms", _int32),
    "fetch.wait.max.ms": ("max_wait_ms", _int32),
}
"""Setting name -> the field of `WireSettings`, and its parser."""

SETTINGS = frozenset({GROUP_ID, *_KNOWN, *SECURITY_SETTINGS})
"""All settings that have an effect."""
