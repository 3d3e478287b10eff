"""Where a broker listens, and where it sends its clients: `listeners` and what belongs to it.

A node by itself skips listeners for controllers. Kafka's counterparts: `EndPoint`,
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
UNNAMED: Final = ""
DEFAULT_PROTOCOLS: Final = BrokerConfig().listener_security_protocol_map
CONTROLLERS: Final = "controller.listener.names"
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
    """Returns the listeners for clients and brokers, in the given order; none on a node that is
    only a controller. Raises `SettingError`.
    """
    controllers = _controller_names(config)
    found = {name: one for name, one in _listeners(config).items() if name not in controllers}
    is_controller_only = config.is_quorate and not config.has_broker_role
    if is_controller_only and found:
        raise _error(
            "listeners",
            ",".join(config.listeners),
            f"process.roles=controller has no listener for clients; {', '.join(found)} must be in "
            "controller.listener.names",
        )
    if not found and not is_controller_only:
        raise _error("listeners", ",".join(config.listeners), "no listener is for clients")
    if found:
        _check_roles(config, found)
    return _with_advertisements(config, found, _advertised(config, is_controller=False))


def controller_listeners(config: BrokerConfig) -> list[Listener]:
    """Returns the listeners of a controller of a KRaft cluster, in the order of
    controller.listener.names; none on a node that is only a broker. Raises `SettingError`.
    """
    if not config.is_quorate:
        return []
    names, given = list(_controller_names(config)), ",".join(config.controller_listener_names)
    found = _listeners(config)
    if not config.has_controller_role:
        here = [name for name in names if name in found]
        if here:
            raise _error(
                "listeners",
                ",".join(config.listeners),
                f"process.roles=broker does not listen on {here[0]}; take it out",
            )
        return []
    missing = [name for name in names if name not in found]
    if missing:
        raise _error(CONTROLLERS, given, f"listeners has no {missing[0]}; add one")
    own = {name: found[name] for name in names}
    return _with_advertisements(config, own, _advertised(config, is_controller=True))


def every_listener(config: BrokerConfig) -> list[Listener]:
    """Returns all that the node listens on, those of clients first; raises `SettingError`."""
    return [*client_listeners(config), *controller_listeners(config)]


def controller_protocol(config: BrokerConfig) -> Listener:
    """The listener by which controllers are reached, the first of controller.listener.names; its
    address is of no matter. Raises `SettingError`.
    """
    (name, *_) = _controller_names(config)
    protocol = _protocols(config).get(name)
    if protocol is None:
        raise _error(CONTROLLERS, name, _unmapped(name))
    return Listener(name=name, address=("", 0), protocol=protocol)


def _controller_names(config: BrokerConfig) -> dict[str, None]:
    """Raises `SettingError` for a node of a KRaft cluster that has none."""
    if config.is_quorate and not config.controller_listener_names:
        raise _error(CONTROLLERS, "", "must name the listeners of controllers: CONTROLLER")
    return dict.fromkeys(name.upper() for name in config.controller_listener_names)


def _listeners(config: BrokerConfig) -> dict[str, Listener]:
    """All listeners, in the given order; raises `SettingError`."""
    protocols = _protocols(config)
    passed_over = () if config.is_quorate else _controller_names(config)
    found: dict[str, Listener] = {}
    on_port: dict[int, list[str]] = {}
    for text in config.listeners:
        named, address = _parse("listeners", text)
        name = named or PLAINTEXT
        _check_port(text, address, on_port)
        if name in passed_over:
            continue
        if name in found:
            raise _error("listeners", text, f"{name} is named twice")
        protocol = protocols.get(name)
        if protocol is None:
            raise _error("listeners", text, _unmapped(name))
        listener = Listener(
            name=name,
            address=(address[0] or EVERY_ADDRESS, address[1]),
            protocol=protocol,
        )
        found[name] = listener
    return found


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


def _check_port(text: str, address: Address, on_port: dict[int, list[str]]) -> None:
    """Raises `SettingError` for a second listener on a port, unless one of two has an IPv4 address
    and the other an IPv6 address, as in Kafka (`CoreUtils.listenerListToEndPoints`).
    """
    host, port = address
    hosts = on_port.setdefault(port, [])
    hosts.append(host)
    if port and len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
        raise _error(
            "listeners",
            text,
            f"port {port} is taken by another listener; each must have its own port, unless one "
            "of two has an IPv4 address and the other an IPv6 address",
        )


def _ip_version(host: str) -> int:
    """Returns 0 for a name, and for every address."""
    from ipaddress import ip_address  # Lazy import: few brokers have a port twice.

    try:
        return ip_address(host).version
    except ValueError:
        return 0


def _with_advertisements(
    config: BrokerConfig, listeners: dict[str, Listener], advertised: dict[str, Address]
) -> list[Listener]:
    """An advertisement without a name is for the only listener. Raises `SettingError`."""
    if UNNAMED in advertised:
        name = next(iter(listeners)) if len(listeners) == 1 else PLAINTEXT
        advertised.setdefault(name, advertised.pop(UNNAMED))
    for name in advertised:
        if name not in listeners:
            raise _error(
                "advertised.listeners",
                ",".join(config.advertised_listeners),
                f"there is no listener {name}; name one of listeners: {', '.join(listeners)}",
            )
    return [replace(one, advertised=advertised.get(one.name)) for one in listeners.values()]


def _advertised(config: BrokerConfig, *, is_controller: bool) -> dict[str, Address]:
    """Where clients, or controllers, are sent; raises `SettingError`."""
    controllers = _controller_names(config)
    found: dict[str, Address] = {}
    for text in config.advertised_listeners:
        name, address = _parse("advertised.listeners", text)
        if not address[0]:
            raise _error("advertised.listeners", text, "must look like PLAINTEXT://host:9092")
        if address[0] == EVERY_ADDRESS:
            raise _error(
                "advertised.listeners",
                text,
                f"clients cannot connect to {EVERY_ADDRESS}; name the host that they can reach",
            )
        if name in found:
            raise _error("advertised.listeners", text, f"{name} is named twice")
        found[name] = address
    return {
        name: address for name, address in found.items() if (name in controllers) is is_controller
    }


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
    if config.listener_security_protocol_map == DEFAULT_PROTOCOLS and config.is_quorate:
        # As in Kafka: a controller's listener needs no row where all are of the default map.
        protocols = {**dict.fromkeys(_controller_names(config), PLAINTEXT), **protocols}
    return protocols


def _unmapped(name: str) -> str:
    return f"listener.security.protocol.map does not know {name}; add {name}:PLAINTEXT, or another"


def _parse(setting: str, text: str) -> tuple[str, Address]:
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT:
        raise _error(setting, text, "must look like PLAINTEXT://host:9092")
    return (match[1] or UNNAMED).upper(), (match[2].strip("[]"), int(match[3]))


def _error(setting: str, text: str, reason: str) -> SettingError:
    message = f"{setting}={text}: {reason}"
    return SettingError(setting, message, message)
