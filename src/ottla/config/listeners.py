"""Where a broker listens, and where it sends its clients: `listeners` and what belongs to it.

Listeners for controllers are skipped. Kafka's counterparts: `EndPoint`,
`SocketServerConfigs.listenerListToEndPoints`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.base.addresses import Address
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig
from ottla.config.setting import SettingError

EVERY_ADDRESS = "0.0.0.0"

MAX_PORT = 65535
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT = lazy_pattern(r"(?:([^:/]+)://)?(\[[0-9a-fA-F:.%]+\]|[^\[\]:/]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on; `advertised` is the address for its clients, if it differs.

    Without it clients are sent to the address that they connected to. `protocol` is Kafka's
    security protocol.
    """

    name: str
    address: Address
    advertised: Address | None = None
    protocol: str = PLAINTEXT

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")


def client_listeners(config: BrokerConfig) -> list[Listener]:
    """Returns the listeners for clients, in the given order; raises `SettingError`."""
    controllers = {name.upper() for name in config.controller_listener_names}
    protocols = _protocols(config)
    advertised = _advertised(config, controllers)
    found: dict[str, Listener] = {}
    for text in config.listeners:
        name, address = _parse("listeners", text)
        if name in controllers:
            continue
        if name in found:
            raise _error("listeners", text, f"{name} is named twice")
        protocol = protocols.get(name)
        if protocol is None:
            raise _error("listeners", text, f"listener.security.protocol.map does not know {name}")
        listener = Listener(
            name=name,
            address=(address[0] or EVERY_ADDRESS, address[1]),
            advertised=advertised.get(name),
            protocol=protocol,
        )
        found[name] = listener
    if not found:
        raise _error("listeners", ",".join(config.listeners), "no listener is for clients")
    _check_roles(config, found)
    return _with_lone_advertisement(list(found.values()), advertised)


def inter_broker_listener(config: BrokerConfig, listeners: Sequence[Listener]) -> Listener:
    """Returns the listener for brokers and for commands on this machine, by its name or protocol.

    Kafka requires one that has the protocol; a broker without a cluster uses the first instead.
    """
    name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    if name:
        suitable = [one for one in listeners if one.name == name.upper()]
    else:
        suitable = [one for one in listeners if one.protocol == protocol]
    return (suitable or listeners)[0]


def _check_roles(config: BrokerConfig, listeners: dict[str, Listener]) -> None:
    brokers, controllers = config.inter_broker_listener_name, config.control_plane_listener_name
    for setting, name in (
        ("inter.broker.listener.name", brokers),
        ("control.plane.listener.name", controllers),
    ):
        if name and name.upper() not in listeners:
            raise _error(setting, name, f"must be one of listeners: {', '.join(listeners)}")
    if brokers and "security.inter.broker.protocol" in config.given:
        raise _error(
            "inter.broker.listener.name",
            brokers,
            "only one of inter.broker.listener.name and security.inter.broker.protocol may be set",
        )
    if brokers and controllers and brokers.upper() == controllers.upper():
        raise _error(
            "control.plane.listener.name",
            controllers,
            "must be another listener than inter.broker.listener.name",
        )


def _with_lone_advertisement(
    listeners: list[Listener], advertised: dict[str, Address]
) -> list[Listener]:
    """Matches a single listener with a single advertisement, whatever their names."""
    if len(listeners) == len(advertised) == 1 and listeners[0].advertised is None:
        (one,) = listeners
        (elsewhere,) = advertised.values()
        return [replace(one, advertised=elsewhere)]
    return listeners


def _advertised(config: BrokerConfig, controllers: set[str]) -> dict[str, Address]:
    found = {}
    for text in config.advertised_listeners:
        name, address = _parse("advertised.listeners", text)
        if not address[0]:
            raise _error("advertised.listeners", text, "must look like PLAINTEXT://host:9092")
        if name not in controllers:
            found[name] = address
    return found


def _protocols(config: BrokerConfig) -> dict[str, str]:
    protocols = {}
    for text in config.listener_security_protocol_map:
        name, colon, protocol = text.partition(":")
        if not colon:
            raise _error("listener.security.protocol.map", text, "must look like NAME:PLAINTEXT")
        protocols[name.strip().upper()] = protocol.strip().upper()
        if protocol.strip().upper() not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise _error("listener.security.protocol.map", text, f"a protocol is one of {known}")
    return protocols


def _parse(setting: str, text: str) -> tuple[str, Address]:
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT:
        raise _error(setting, text, "must look like PLAINTEXT://host:9092")
    return (match[1] or PLAINTEXT).upper(), (match[2].strip("[]"), int(match[3]))


def _error(setting: str, text: str, reason: str) -> SettingError:
    message = f"{setting}={text}: {reason}"
    return SettingError(setting, message, message)
