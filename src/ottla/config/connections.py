"""How many connections each host may have: `max.connections.per.ip.overrides`.

Kafka's counterpart: `SocketServerConfigs`. Kafka also accepts host names, which it looks up; here
only addresses are valid.
"""

from collections.abc import Iterable

from ottla.base.addresses import canonical_host
from ottla.config.setting import SettingError

NAME = "max.connections.per.ip.overrides"


def connection_overrides(texts: Iterable[str]) -> dict[str, int]:
    """Parses limits by address from texts like `10.0.0.1:20`; raises `SettingError`."""
    return dict(_override(text) for text in texts)


def _override(text: str) -> tuple[str, int]:
    from ipaddress import ip_address

    host, _, count = text.rpartition(":")
    try:
        address = canonical_host(str(ip_address(host.strip().strip("[]"))))
        limit = int(count)
    except ValueError as error:
        raise _error(text) from error
    if limit < 0:
        raise _error(text)
    return address, limit


def _error(text: str) -> SettingError:
    message = f"{NAME}={text}: must be an address and a count, like 10.0.0.1:20"
    return SettingError(NAME, message, message)
