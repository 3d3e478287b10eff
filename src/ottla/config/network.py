"""The settings of a broker's listeners and connections, with Kafka's names and defaults.

Kafka's counterparts: `SocketServerConfigs`, `ReplicationConfigs`.
"""

from dataclasses import dataclass

from ottla.config.setting import INT32_MAX, setting
from ottla.config.transaction import TransactionConfig


# Only `BrokerConfig` is made: methods over all fields would be compiled at each start for nothing.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class NetworkConfig(TransactionConfig):
    """Attributes are Kafka's names with underscores.

    On top of the transactions' settings, since dataclasses with slots have one base.
    """

    advertised_listeners: tuple[str, ...] = setting(
        "advertised.listeners",
        "list",
        (),
        "Where the clients of each listener are sent, as NAME://host:port; by default the address "
        "they came to.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        "long",
        600_000,
        "A connection that has been silent for this long is closed; -1 keeps it.",
        at_least=-1,
        is_dynamic=False,
    )
    control_plane_listener_name: str | None = setting(
        "control.plane.listener.name",
        "string",
        None,
        "The listener that controllers use, one of listeners, and not that of the brokers.",
        is_dynamic=False,
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        "list",
        (),
        "Names of listeners that are for controllers, on which nothing is listened.",
        is_dynamic=False,
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        "string",
        None,
        "The listener that brokers use among themselves, one of listeners; commands on the data "
        "directory of a running broker connect to it.",
        is_dynamic=False,
    )
    listener_security_protocol_map: tuple[str, ...] = setting(
        "listener.security.protocol.map",
        "list",
        (
            "SASL_SSL:SASL_SSL",
            "PLAINTEXT:PLAINTEXT",
            "SSL:SSL",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
        ),
        "The protocol that each listener's name stands for: PLAINTEXT, SSL, SASL_PLAINTEXT or "
        "SASL_SSL.",
    )
    listeners: tuple[str, ...] = setting(
        "listeners",
        "list",
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen, as NAME://host:port; without a host on every address. Kafka's default "
        "is PLAINTEXT://:9092.",
    )
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate",
        "int",
        INT32_MAX,
        "How many connections may come per second; more wait. "
        "listener.name.NAME.max.connection.creation.rate is that of one listener (KIP-612).",
        at_least=0,
    )
    max_connections: int = setting(
        "max.connections",
        "int",
        INT32_MAX,
        "How many connections there may be; more wait until one has gone. "
        "listener.name.NAME.max.connections is that of one listener.",
        at_least=0,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        "int",
        INT32_MAX,
        "How many connections one address may have; more are closed at once.",
        at_least=0,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides",
        "list",
        (),
        "Addresses that may have more connections or fewer, as ADDRESS:COUNT.",
    )
    ottla_authentication_timeout_ms: int = setting(
        "ottla.authentication.timeout.ms",
        "int",
        10_000,
        "How long a client may take for its TLS handshake and its login, each; Kafka waits for "
        "connections.max.idle.ms.",
        at_least=1,
        is_dynamic=False,
    )
    ottla_min_transfer_rate: int = setting(
        "ottla.min.transfer.rate",
        "int",
        1024,
        "How many bytes a second a client must move at least while a request of it is coming in or "
        "an answer is going out, over ottla.min.transfer.rate.window.ms; 0: none.",
        at_least=0,
    )
    ottla_min_transfer_rate_window_ms: int = setting(
        "ottla.min.transfer.rate.window.ms",
        "int",
        600_000,
        "How long a client may move fewer bytes than ottla.min.transfer.rate. Some take no answers "
        "while they work on records, for as long as max.poll.interval.ms.",
        at_least=1,
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        "long",
        536_870_912,
        "Memory for large requests that are coming in, of all connections together: beyond it only "
        "one is read on at a time. -1 is no limit, which is Kafka's default.",
        at_least=-1,
        is_dynamic=False,
    )
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        "string",
        "PLAINTEXT",
        "The protocol of the brokers' listener, where inter.broker.listener.name does not name it.",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        is_dynamic=False,
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        "int",
        104_857_600,
        "The largest request that a connection may send.",
        at_least=1,
        is_dynamic=False,
    )
