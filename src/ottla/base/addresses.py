"""HOST:PORT as people write it, with an IPv6 host in brackets."""

import os

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern

MAX_PORT = 65535

_BROKERS = lazy_pattern(r"[^/@,\s]*:\d+(,\s*[^/@,\s]*:\d+)*")
_HOST = lazy_pattern(r"localhost|\[[0-9a-fA-F:]+\]|[^/@:\s,]+(\.[^/@:.\s,]+){2,}")

Address = tuple[str, int]
"""Host and port."""


def parse_address(text: str) -> Address:
    """Parses HOST:PORT; raises `UserError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > MAX_PORT:
        raise UserError(f"{text}: an address is HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]") or "0.0.0.0", int(port)


def names_brokers(text: str) -> bool:
    """Whether a text is `HOST:PORT[,HOST:PORT]` and not an existing directory.

    A new directory of such a name is written `./HOST:PORT`.
    """
    return _BROKERS.fullmatch(text) is not None and not os.path.isdir(text)


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def looks_like_host(text: str) -> bool:
    """Whether a word without a port is more likely a host than the name of a directory."""
    return _HOST.fullmatch(text) is not None


def check_no_host(path: str) -> None:
    """Raises `UserError` if a directory to be created is more likely a host without its port."""
    if looks_like_host(path) and not os.path.isdir(path):
        raise UserError(
            f"{path}: there is no such directory; a broker is HOST:PORT, such as {path}:9092, and "
            f"a new directory of that name is ./{path}"
        )


def canonical_host(host: str) -> str:
    """An IPv6 address as sockets show it, however it is written; anything else unchanged.

    Java writes `0:0:0:0:0:0:0:1` where Python has `::1`; IPv4 through an IPv6 socket becomes IPv4.
    """
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
