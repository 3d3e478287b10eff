"""The hosts of access rules: `*`, an address, or a range of addresses such as 10.0.0.0/8.

Ranges are read from level 32 of `metadata.version` on (4.4-IV1, KIP-1276); before, and in a cluster
with ZooKeeper, a host with a slash is a text that is no client's address. Kafka's counterparts:
`CidrUtils`, `AclControlManager.validateHostPattern`.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError

Key = TypeVar("Key")

FIRST_WITH_RANGES: Final = 32
SLASH: Final = "/"
MAX_PARSED: Final = 1000
IPV4_BITS: Final = 32
IPV6_BITS: Final = 128
MAX_IPV4_SIZE: Final = 15


class Range(NamedTuple):
    """The size of an address in bits, how many of them all addresses share, and their value."""

    bits: int
    length: int
    prefix: int

    @property
    def text(self) -> str:
        """The same for all texts of a range."""
        first = self.prefix << (self.bits - self.length)
        if self.bits == IPV4_BITS:
            return f"{'.'.join(map(str, first.to_bytes(4, 'big')))}/{self.length}"
        from ipaddress import IPv6Address  # Lazy: most brokers have no such ranges.

        return f"{IPv6Address(first)}/{self.length}"


@lru_cache(MAX_PARSED)
def parse_range(text: str) -> Range:
    """A range in the notation of CIDR; bits of the address beyond the prefix do not count.

    Raises `ValueError` with a reason. As Kafka: no netmasks, no IPv4 in the form of IPv6.
    """
    address, _, given = text.partition(SLASH)
    if not (given.isascii() and given.isdigit()):
        raise ValueError("after the slash must be the length of the prefix, as in 10.0.0.0/8")
    bits, value = _address(address)
    length = int(given)
    if length > bits:
        raise ValueError(f"a prefix has at most {bits} bits")
    return Range(bits, length, value >> (bits - length))


def _address(text: str) -> tuple[int, int]:
    """The size in bits and the value of an address; raises `ValueError`."""
    if ":" not in text:
        # Kafka reads 010.0.0.1 as 10.0.0.1, which other readers take for octal, or refuse.
        parts = text.split(".")
        is_one = len(parts) == 4 and all(one.isascii() and one.isdigit() for one in parts)
        numbers = [int(one) for one in parts] if is_one and len(text) <= MAX_IPV4_SIZE else [256]
        if max(numbers) > 255:
            raise ValueError(f"{text!r} is no IPv4 address")
        return IPV4_BITS, int.from_bytes(bytes(numbers), "big")
    from ipaddress import IPv6Address

    found = IPv6Address(text)
    if found.ipv4_mapped is not None or found.scope_id is not None:
        raise ValueError("it must be of plain IPv4 or IPv6 addresses, as 10.0.0.0/8 or fd00::/8")
    return IPV6_BITS, int(found)


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
        return parse_range(host).text
    except ValueError:
        return host  # As in Kafka: no address is in it.


class HostRanges:
    """Ranges by their prefixes: an address is looked up once for each length of a prefix in use,
    however many ranges there are.
    """

    def __init__(self) -> None:
        self._counts: dict[Range, int] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        """The uses of ranges for each size of addresses and length of the prefix."""

    def put(self, host: str) -> None:
        """Counts a use of a range; what is none is in no address."""
        self._count(host, 1)

    def drop(self, host: str) -> None:
        self._count(host, -1)

    def _count(self, host: str, change: int) -> None:
        try:
            found = parse_range(host)
        except ValueError:
            return
        _add(self._counts, found, change)
        _add(self._lengths, (found.bits, found.length), change)

    def containing(self, host: str) -> Iterator[str]:
        """The ranges with a client's address, or with all of a range; none for other hosts."""
        if not self._counts:
            return
        try:
            if SLASH in host:
                bits, longest, prefix = parse_range(host)
                value = prefix << (bits - longest)
            else:
                bits, value = _address(host.partition("%")[0])
                longest = bits
        except ValueError:
            return
        for size, length in self._lengths:
            if size == bits and length <= longest:
                found = Range(bits, length, value >> (bits - length))
                if found in self._counts:
                    yield found.text


def _add(counts: dict[Key, int], key: Key, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]
