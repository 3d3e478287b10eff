"""The settings of a node of a KRaft cluster, with Kafka's names and defaults.

They have no effect without `process.roles`. Kafka's counterparts: `KRaftConfigs`, `QuorumConfig`,
`MetadataLogConfig`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.base.addresses import Address
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.config.replication import ReplicationConfig
from ottla.config.setting import SettingError, setting, settings_of

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
MAX_PORT: Final = 65535
FIRST_NODE_ID: Final = 1
"""Of a node that is a cluster by itself, and that nobody has given an id."""

HERE: Final = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "::1"})
VOTER_EXAMPLE: Final = "must look like 1@host:9093"

_PLACE = lazy_pattern(r"(\[[0-9a-fA-F:.%]+\]|[^\[\]:/@]+):([0-9]{1,5})")
_VOTER = lazy_pattern(r"([0-9]+)@(.+)")


class QuorumVoter(NamedTuple):
    """A voter that the settings name."""

    id: int
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QuorumConfig(ReplicationConfig):
    """Attributes are Kafka's names with underscores."""

    broker_heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        "int",
        2000,
        "How often the broker tells the controller that it is alive.",
        at_least=1,
        is_dynamic=False,
    )
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        "int",
        9000,
        "Time without a heartbeat after which the controller fences a broker.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_append_linger_ms: int = setting(
        "controller.quorum.append.linger.ms",
        "int",
        25,
        "Kafka's delay before the leader writes records; here those of one round are written "
        "together.",
        at_least=0,
        is_dynamic=False,
    )
    controller_quorum_auto_join_enable: bool = setting(
        "controller.quorum.auto.join.enable",
        "boolean",
        False,
        "Whether a controller that is no voter asks to become one (KIP-853).",
        is_dynamic=False,
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers",
        "list",
        (),
        "HOST:PORT,... of controllers, by which the quorum is found; its log names the voters.",
        is_dynamic=False,
    )
    controller_quorum_election_backoff_max_ms: int = setting(
        "controller.quorum.election.backoff.max.ms",
        "int",
        1000,
        "The longest pause after an election that nobody has won.",
        at_least=0,
        is_dynamic=False,
    )
    controller_quorum_election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms",
        "int",
        1000,
        "How long a voter waits for a leader or for votes, at the least, before it stands for "
        "election.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_fetch_max_bytes: int = setting(
        "controller.quorum.fetch.max.bytes",
        "int",
        1 << 20,
        "Bytes of the metadata log in one response of the leader.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_fetch_snapshot_max_bytes: int = setting(
        "controller.quorum.fetch.snapshot.max.bytes",
        "int",
        1 << 20,
        "Bytes of a snapshot of the metadata in one response of the leader.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms",
        "int",
        2000,
        "Time without a successful fetch after which a voter stands for election; a leader "
        "that a majority does not fetch from for one and a half times as long resigns.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_request_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms",
        "int",
        2000,
        "How long a controller waits for another's response.",
        at_least=1,
        is_dynamic=False,
    )
    controller_quorum_retry_backoff_ms: int = setting(
        "controller.quorum.retry.backoff.ms",
        "int",
        20,
        "Pause before a failed request to a controller is repeated; up to five times as long while "
        "it does not answer at all.",
        at_least=0,
        is_dynamic=False,
    )
    controller_quorum_voters: tuple[str, ...] = setting(
        "controller.quorum.voters",
        "list",
        (),
        "ID@HOST:PORT,... of the controllers that vote, the same on all nodes; without it the "
        "log names them (controller.quorum.bootstrap.servers).",
        is_dynamic=False,
    )
    initial_broker_registration_timeout_ms: int = setting(
        "initial.broker.registration.timeout.ms",
        "int",
        60_000,
        "How long a broker that starts tries to register with the controller before it gives up.",
        at_least=1,
        is_dynamic=False,
    )
    metadata_log_max_snapshot_interval_ms: int = setting(
        "metadata.log.max.snapshot.interval.ms",
        "long",
        3_600_000,
        "Time after which a snapshot of the metadata is made, if it has changed; 0 for no "
        "such time.",
        at_least=0,
        is_dynamic=False,
    )
    metadata_log_segment_bytes: int = setting(
        "metadata.log.segment.bytes",
        "int",
        1 << 30,
        "Size of a segment of the metadata log.",
        at_least=8 << 20,
        is_dynamic=False,
    )
    metadata_log_segment_ms: int = setting(
        "metadata.log.segment.ms",
        "long",
        604_800_000,
        "Time after which the metadata log begins another segment.",
        at_least=1,
        is_dynamic=False,
    )
    metadata_max_idle_interval_ms: int = setting(
        "metadata.max.idle.interval.ms",
        "int",
        500,
        "How often the active controller writes a record if nothing else is written; 0 for never.",
        at_least=0,
        is_dynamic=False,
    )
    metadata_max_retention_ms: int = setting(
        "metadata.max.retention.ms",
        "long",
        604_800_000,
        "Time after which old snapshots and segments of the metadata log are deleted; -1 for "
        "never.",
        at_least=-1,
        is_dynamic=False,
    )
    process_roles: tuple[str, ...] = setting(
        "process.roles",
        "list",
        (),
        "What the node is in a KRaft cluster: broker, controller, or both. Without it the "
        "broker runs by itself, or in a cluster over ZooKeeper.",
        one_of=("broker", "controller"),
        is_dynamic=False,
    )
    sasl_mechanism_controller_protocol: str = setting(
        "sasl.mechanism.controller.protocol",
        "string",
        "GSSAPI",
        "Mechanism by which this node logs in to controllers over a SASL listener.",
        is_dynamic=False,
    )

    unclean_leader_election_interval_ms: int = setting(
        "unclean.leader.election.interval.ms",
        "long",
        300_000,
        "How often the active controller looks for partitions without a leader that any replica "
        "may lead since their settings have changed (unclean.leader.election.enable).",
        at_least=1,
        is_dynamic=False,
    )

    @property
    def is_quorate(self) -> bool:
        """Whether the node belongs to a KRaft cluster."""
        return bool(self.process_roles)

    @property
    def has_broker_role(self) -> bool:
        return BROKER in self.process_roles

    @property
    def has_controller_role(self) -> bool:
        return CONTROLLER in self.process_roles

    @property
    def voters(self) -> list[QuorumVoter]:
        """The voters of a static quorum, in the given order; raises `SettingError`."""
        name, found = "controller.quorum.voters", []
        for text in self.controller_quorum_voters:
            match = _VOTER.fullmatch(text)
            if match is None:
                raise _error(name, text, VOTER_EXAMPLE)
            found.append(QuorumVoter(int(match[1]), _address(name, text, match[2], VOTER_EXAMPLE)))
        if len({one.id for one in found}) < len(found):
            raise _error(name, ",".join(self.controller_quorum_voters), "a node is named twice")
        if len({one.address for one in found}) < len(found):
            given = ",".join(self.controller_quorum_voters)
            raise _error(name, given, "two nodes have one address; each has its own")
        return found

    @property
    def bootstrap_controllers(self) -> list[Address]:
        """Where the quorum is asked first; raises `SettingError`."""
        name = "controller.quorum.bootstrap.servers"
        return [
            _address(name, text, text, "must look like host:9093")
            for text in self.controller_quorum_bootstrap_servers
        ]


def is_listener(address: Address, listeners: Iterable[str]) -> bool:
    """Whether an address is that of a listener, each as in the settings; a listener on all
    addresses has this machine's.
    """
    places = (text.rpartition("/")[2].rpartition(":") for text in listeners)
    own = {(_one_name(host.strip("[]")), port) for host, _, port in places}
    return (_one_name(address[0]), str(address[1])) in own


def _one_name(host: str) -> str:
    return "localhost" if host in HERE else host


def _address(name: str, text: str, place: str, reason: str) -> Address:
    match = _PLACE.fullmatch(place)
    if match is None or not 0 < int(match[2]) <= MAX_PORT:
        raise _error(name, text, reason)
    return match[1].strip("[]"), int(match[2])


def _error(name: str, text: str, reason: str) -> SettingError:
    message = f"{name}={text}: {reason}"
    return SettingError(name, message, message)


QUORUM_SETTINGS: Final = frozenset(settings_of(QuorumConfig)) - frozenset(
    settings_of(ReplicationConfig)
)
"""Settings that have no effect on a node that belongs to no KRaft cluster."""
