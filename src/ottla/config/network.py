"""The settings of a broker's listeners and connections, with Kafka's names and defaults.

Kafka's counterparts: `SocketServerConfigs`, `ReplicationConfigs`.
"""

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX, setting
from ottla.config.transaction import TransactionConfig


# Not printed: some settings are secrets.
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NetworkConfig(TransactionConfig):
    """Attributes are Kafka's names with underscores.

    Inherits the transactions' settings, since dataclasses with slots have one base.
    """

    advertised_listeners: tuple[str, ...] = setting(
        "advertised.listeners",
        "list",
        (),
        "Address to which each listener's clients are sent, as NAME://host:port; by default the "
        "address that they connected to.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        "long",
        600_000,
        "Idle time after which a connection is closed; -1 for never.",
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
        "Names of the listeners of controllers, and of no others; a broker by itself does not "
        "listen on them.",
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
        "Where to listen, as NAME://host:port; without a host, on all addresses. Kafka's default "
        "is PLAINTEXT://:9092.",
    )
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate",
        "int",
        INT32_MAX,
        "Maximum number of new connections per second; further ones wait. "
        "listener.name.NAME.max.connection.creation.rate is the limit of one listener (KIP-612).",
        at_least=0,
    )
    max_connections: int = setting(
        "max.connections",
        "int",
        INT32_MAX,
        "Maximum number of connections; further ones wait until one is closed. "
        "listener.name.NAME.max.connections is the limit of one listener.",
        at_least=0,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        "int",
        INT32_MAX,
        "Maximum number of connections from one address; further ones are closed at once.",
        at_least=0,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides",
        "list",
        (),
        "Addresses with their own connection limit, as ADDRESS:COUNT.",
    )
    ottla_authentication_timeout_ms: int = setting(
        "ottla.authentication.timeout.ms",
        "int",
        10_000,
        "How long a client may take for its TLS handshake, and for its login; Kafka waits for "
        "connections.max.idle.ms.",
        at_least=1,
        is_dynamic=False,
    )
    ottla_min_transfer_rate: int = setting(
        "ottla.min.transfer.rate",
        "int",
        1024,
        "Minimum bytes per second, over ottla.min.transfer.rate.window.ms, that a client must "
        "transfer while it sends a request or receives a response; 0 for no minimum.",
        at_least=0,
    )
    ottla_min_transfer_rate_window_ms: int = setting(
        "ottla.min.transfer.rate.window.ms",
        "int",
        600_000,
        "How long a client may transfer less than ottla.min.transfer.rate. Some clients read no "
        "responses while they process records, for up to max.poll.interval.ms.",
        at_least=1,
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        "long",
        536_870_912,
        "Memory for incoming large requests of all connections together: beyond it only one is "
        "read at a time. -1 for no limit, which is Kafka's default.",
        at_least=-1,
        is_dynamic=False,
    )
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        "string",
        "PLAINTEXT",
        "Protocol of the brokers' listener, if inter.broker.listener.name is not set.",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        is_dynamic=False,
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        "int",
        104_857_600,
        "Maximum size of a request.",
        at_least=1,
        is_dynamic=False,
    )
