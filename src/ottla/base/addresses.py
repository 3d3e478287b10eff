"""HOST:PORT as people write it, with an IPv6 host in brackets."""

from ottla.base.errors import UserError

MAX_PORT = 65535

Address = tuple[str, int]
"""Host and port."""


def parse_address(text: str) -> Address:
    """Raises `UserError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > MAX_PORT:
        raise UserError(f"{text}: an address is HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]") or "0.0.0.0", int(port)


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def canonical_host(host: str) -> str:
    """An IPv6 address as sockets show it, however it is written; anything else as it is.

    Java writes `0:0:0:0:0:0:0:1` where Python has `::1`; IPv4 through an IPv6 socket is IPv4.
    """
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
