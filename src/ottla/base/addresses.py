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
