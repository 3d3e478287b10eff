"""The brokers of a cluster, and where they are reached."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Final, TypeVar

from ottla.base.addresses import address_text
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass

ListenerT = TypeVar("ListenerT")
FeatureT = TypeVar("FeatureT")

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's number of each security protocol."""

SECURITY_PROTOCOL_NAMES: Final = {number: name for name, number in SECURITY_PROTOCOLS.items()}


def protocol_of(code: int) -> str:
    """The name of a security protocol; one of a later Kafka is its number."""
    return SECURITY_PROTOCOL_NAMES.get(code, str(code))


def code_of_protocol(name: str) -> int:
    """The inverse."""
    known = SECURITY_PROTOCOLS.get(name)
    return int(name) if known is None else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An advertised listener; `security_protocol` is a name such as SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: str

    @property
    def connection_text(self) -> str:
        return f"{self.listener}://{address_text(self.host, self.port)}"


def listeners_of(kind: Callable[..., ListenerT], endpoints: Iterable[Endpoint]) -> list[ListenerT]:
    """Endpoints as the records and requests of registrations have them, each in a class of its own
    with the same fields.
    """
    return [
        kind(
            name=one.listener,
            host=one.host,
            port=one.port,
            security_protocol=code_of_protocol(one.security_protocol),
        )
        for one in endpoints
    ]


def supported_of(
    kind: Callable[..., FeatureT], features: Mapping[str, tuple[int, int]]
) -> list[FeatureT]:
    """The lowest and highest levels of features, as requests of registrations have them."""
    return [
        kind(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(features.items())
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a broker says of itself when it starts.

    `features` are names with their `min_version` and `max_version`; in ZooKeeper a node has them
    from version 5 on, and the zxid that created it is the broker's epoch.
    """

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Of a node of ZooKeeper only:
    jmx_port: int = -1
    timestamp_ms: int = 0
    version: int = 5
    # Of a record of KRaft only:
    epoch: int = -1
    incarnation_id: Uuid = ZERO_UUID
    directories: tuple[Uuid, ...] = ()
    cordoned: tuple[Uuid, ...] = ()
    """The directories that get no new replicas."""
    is_fenced: bool = False
    is_shutting_down: bool = False
    is_migrating: bool = False

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((one for one in self.endpoints if one.listener == listener), None)
