"""The hosts of access rules: `*`, an address, or a range of addresses such as 10.0.0.0/8.

Ranges are read from level 32 of `metadata.version` on (4.4-IV1, KIP-1276); before, and in a cluster
with ZooKeeper, a host with a slash is a text that is no client's address. Kafka's counterparts:
`CidrUtils`, `AclControlManager.validateHostPattern`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError

if TYPE_CHECKING:  # Lazy: most brokers have no ranges.
    from ipaddress import IPv4Network, IPv6Network

FIRST_WITH_RANGES: Final = 32
SLASH: Final = "/"

Network = tuple[int, int, int]
"""The size of an address in bits, how many of them all addresses of a range share, and which."""


def parse_range(text: str) -> "IPv4Network | IPv6Network":
    """A range in the notation of CIDR; bits of the address beyond the prefix do not count.

    Raises `ValueError` with a reason. As Kafka: no netmasks, no IPv4 in the form of IPv6.
    """
    from ipaddress import IPv4Network, IPv6Network

    address, _, prefix = text.partition(SLASH)
    if not (prefix.isascii() and prefix.isdigit()):
        raise ValueError("after the slash must be the length of the prefix, as in 10.0.0.0/8")
    if ":" not in address:
        # Kafka reads 010.0.0.1 as 10.0.0.1, where Python refuses it as ambiguous.
        numbers = (part.lstrip("0") or part[-1:] for part in address.split("."))
        return IPv4Network((".".join(numbers), int(prefix)), strict=False)
    found = IPv6Network((address, int(prefix)), strict=False)
    if found.network_address.ipv4_mapped is not None or "%" in address:
        raise ValueError("it must be a range of plain IPv4 or IPv6 addresses")
    return found


def check_host(host: str, level: int) -> None:
    """Raises `ApiError` for a range at a `level` that has none, or for one that cannot be read."""
    if SLASH not in host:
        return
    if level < FIRST_WITH_RANGES:
        known = (
            f"this is {level}: raise it (ottla cluster features)"
            if level
            else "a cluster over ZooKeeper has none"
        )
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The host of an ACL can be a range of addresses, as {host} is, from metadata.version "
            f"{FIRST_WITH_RANGES} (4.4-IV1) on, and {known}.",
        )
    try:
        parse_range(host)
    except ValueError as error:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{host}': {error}"
        ) from error


def comparable_range(host: str) -> str:
    """A range as all texts of the same range are compared; anything else unchanged."""
    try:
        return str(parse_range(host))
    except ValueError:
        return host  # As in Kafka: no address is in it.


class HostRanges:
    """Ranges by their prefixes: an address is looked up once for each length of a prefix in use,
    however many ranges there are.
    """

    def __init__(self) -> None:
        self._texts: dict[Network, str] = {}
        self._counts: dict[str, int] = {}
        self._prefixes: dict[tuple[int, int], int] = {}
        """The number of ranges for each size of addresses and length of the prefix."""

    def put(self, text: str) -> None:
        """Counts a use of a range, as `comparable_range` has it."""
        self._count(text, 1)

    def drop(self, text: str) -> None:
        self._count(text, -1)

    def _count(self, text: str, change: int) -> None:
        try:
            found = parse_range(text)
        except ValueError:
            return
        before = self._counts.get(text, 0)
        self._counts[text] = before + change
        if before and before + change:
            return
        length = found.prefixlen
        key = _network(int(found.network_address), found.max_prefixlen, length)
        if change > 0:
            self._texts[key] = text
        else:
            del self._texts[key], self._counts[text]
        prefixes = self._prefixes
        prefixes[key[:2]] = prefixes.get(key[:2], 0) + change
        if not prefixes[key[:2]]:
            del prefixes[key[:2]]

    def containing(self, host: str) -> Iterator[str]:
        """The ranges with a client's address, or with all of a range; none for other hosts."""
        if not self._prefixes:
            return
        from ipaddress import ip_address

        try:
            if SLASH in host:
                whole = parse_range(host)
                address, longest = whole.network_address, whole.prefixlen
            else:
                address = ip_address(host.partition("%")[0])
                longest = address.max_prefixlen
        except ValueError:
            return
        for bits, length in self._prefixes:
            if bits == address.max_prefixlen and length <= longest:
                text = self._texts.get(_network(int(address), bits, length))
                if text is not None:
                    yield text


def _network(address: int, bits: int, length: int) -> Network:
    return bits, length, address >> (bits - length)
