"""What the settings of a node of a KRaft cluster mean for its part in the quorum."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ottla.base.addresses import address_text
from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.ids import ZERO_UUID, Uuid, is_reserved, uuid_text
from ottla.cluster.place import Place
from ottla.cluster.quorum.broker_lifecycle import NO_EPOCH, LifecycleOptions
from ottla.cluster.quorum.controller_lifecycle import ControllerOptions
from ottla.config.broker import BrokerConfig
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.config.kafka_version import step_of
from ottla.config.listeners import controller_listeners, controller_protocol
from ottla.config.setting import SettingError
from ottla.metadata.levels import METADATA_LEVELS, SUPPORTED
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import META_PROPERTIES
from ottla.storage.files.meta_properties import first_properties, properties_of
from ottla.storage.files.metadata_files import has_metadata_log, metadata_size

VOTERS = "controller.quorum.voters"
BOOTSTRAP = "controller.quorum.bootstrap.servers"


class Identity(NamedTuple):
    """What the formatted directories of a node say of it, and where its metadata log is."""

    node_id: int
    cluster_id: str
    metadata_path: str


def identity_of(config: BrokerConfig, paths: Sequence[str], file_system: FileSystem) -> Identity:
    """Raises `UserError` for directories that are not formatted, or for another node."""
    metadata_path = config.metadata_log_dir or paths[0]
    try:
        found = first_properties([metadata_path, *paths], file_system)
    except CorruptionError as error:
        raise UserError(f"{error}; restore the file or name another directory") from error
    if found is None or found.cluster_id is None:
        raise UserError(
            f"{metadata_path} is not formatted for a KRaft cluster: all nodes must have the same "
            "cluster id; format it with ottla cluster format"
        )
    node_id = config.wanted_node_id
    if node_id is None:
        node_id = found.node_id
    if node_id is None or node_id != found.node_id:
        raise UserError(
            f"{metadata_path} is formatted for node {found.node_id}, and node.id is {node_id}; "
            "change the setting, or name another directory"
        )
    for path in dict.fromkeys([metadata_path, *paths]):
        _check_directory_id(path, file_system)
    return Identity(node_id, found.cluster_id, metadata_path)


def _check_directory_id(path: str, file_system: FileSystem) -> None:
    """Raises `UserError` for an id that no controller registers (Kafka:
    `MetaPropertiesEnsemble.verify`).
    """
    try:
        known = properties_of(file_system, path)
    except (CorruptionError, OSError):
        return  # whoever opens the directories says so
    if known is not None and known.directory_id is not None and is_reserved(known.directory_id):
        raise UserError(
            f"{join(path, META_PROPERTIES)}: directory.id={uuid_text(known.directory_id)} is "
            "reserved by Kafka; put back the id that the directory had, or give a new directory "
            "one of ottla cluster new-id"
        )


# The quorum


def settings_voters(config: BrokerConfig, node_id: int) -> VoterSet:
    """The voters of a static quorum, none of a dynamic one; raises `UserError`."""
    listener = controller_protocol(config)
    voters = VoterSet.of(
        Voter(ReplicaKey(one.id), (Endpoint(listener.name, *one.address),)) for one in config.voters
    )
    if not voters and not config.bootstrap_controllers and not config.has_controller_role:
        raise _error(BOOTSTRAP, "", f"name the controllers of the cluster here, or in {VOTERS}")
    is_named = node_id in voters.ids
    given = ",".join(config.controller_quorum_voters)
    if is_named and not config.has_controller_role:
        raise _error(VOTERS, given, f"node {node_id} votes, so process.roles must have controller")
    if voters and config.has_controller_role and not is_named:
        raise _error(VOTERS, given, f"node.id={node_id} is a controller; name it here too")
    return voters


def misplaced_voter(config: BrokerConfig, node_id: int) -> str | None:
    """What is to be said of a voter that the settings place at a port on which it does not listen:
    by itself it leads, and in a larger quorum nobody reaches it.
    """
    places = [one.address for one in config.voters if one.id == node_id]
    for place, listener in zip(places, controller_listeners(config), strict=False):
        _, port = listener.address
        if place[1] not in {port, (listener.advertised or listener.address)[1]}:
            return (
                f"{VOTERS} has node {node_id} at {address_text(*place)}, and {listener.name} "
                f"listens on port {port}: other nodes do not reach this controller, unless "
                "something passes on what comes to that port"
            )
    return None


def lone_voter(config: BrokerConfig, node_id: int, voters: VoterSet) -> str | None:
    """What is to be said of a controller that is all of its quorum, where the settings name only
    others, as after a directory was formatted with --standalone by mistake.
    """
    others = config.bootstrap_controllers
    if config.voters or not others or voters.ids != {node_id}:
        return None
    own = {one.address[1] for one in controller_listeners(config)}
    if any(port in own for _, port in others):
        return None
    return (
        f"{BOOTSTRAP} names other controllers, but by its metadata log this node is the only voter "
        "of a quorum of its own, and in no cluster with them: to join theirs, format an empty "
        "directory for it with --no-initial-controllers"
    )


def _error(name: str, given: str, reason: str) -> SettingError:
    message = f"{name}={given}: {reason}"
    return SettingError(name, message, message)


def quorum_options(
    config: BrokerConfig, identity: Identity, directory_id: Uuid | None, place: Place
) -> QuorumOptions:
    listener = controller_protocol(config)
    own = place.controller_endpoints if config.has_controller_role else ()
    return QuorumOptions(
        key=ReplicaKey(identity.node_id, directory_id or ZERO_UUID),
        cluster_id=identity.cluster_id,
        endpoints=tuple(Endpoint(one.listener, one.host, one.port) for one in own),
        bootstrap=tuple(Endpoint(listener.name, *one) for one in config.bootstrap_controllers),
        auto_join=config.has_controller_role and config.controller_quorum_auto_join_enable,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        append_linger_ms=config.controller_quorum_append_linger_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
    )


# The node for other brokers


@cache
def spoken_at(level: int) -> InterBrokerVersion:
    """By which brokers ask each other at a level of `metadata.version`; 0 is not known yet."""
    name = next((one.name for one in METADATA_LEVELS if one.level >= level), None)
    return InterBrokerVersion(step_of(name or METADATA_LEVELS[-1].name))


# The node for the controllers


def lifecycle_options(
    config: BrokerConfig,
    identity: Identity,
    incarnation_id: Uuid,
    place: Place,
    directories: Sequence[LogDirectory],
) -> LifecycleOptions:
    return LifecycleOptions(
        broker_id=identity.node_id,
        cluster_id=identity.cluster_id,
        incarnation_id=incarnation_id,
        endpoints=place.endpoints,
        features=SUPPORTED,
        controllers=_controllers_text(config),
        rack=config.broker_rack or None,
        directories=tuple(one.directory_id for one in directories if one.directory_id is not None),
        previous_epoch=previous_epoch(directories),
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
    )


def _controllers_text(config: BrokerConfig) -> str:
    """The setting that names the controllers, as it was given."""
    voters, servers = config.controller_quorum_voters, config.controller_quorum_bootstrap_servers
    return f"{VOTERS}={','.join(voters)}" if voters else f"{BOOTSTRAP}={','.join(servers)}"


def previous_epoch(directories: Sequence[LogDirectory]) -> int:
    """The epoch with which the broker stopped, if every directory was left cleanly by it, or -1.

    Kafka's counterpart: `LogManager.readBrokerEpochFromCleanShutdownFiles`.
    """
    epochs = {None if one.is_offline else one.previous_broker_epoch for one in directories}
    (epoch, *others) = epochs
    return NO_EPOCH if others or epoch is None else epoch


def refuse_log_elsewhere(
    path: str, directories: Sequence[LogDirectory], file_system: FileSystem
) -> None:
    """Raises `RefusalError` if the log of a controller would begin anew beside the one it has."""
    if has_metadata_log(file_system, path):
        return
    for one in directories:
        if one.is_offline or one.path == path or not has_metadata_log(file_system, one.path):
            continue
        if metadata_size(file_system, one.path):
            raise RefusalError(
                f"{path} has no metadata log, and {one.path} has that of this node, which must not "
                f"vote without it: set metadata.log.dir={one.path}"
            )


def controller_options(identity: Identity, incarnation_id: Uuid, place: Place) -> ControllerOptions:
    return ControllerOptions(
        node_id=identity.node_id,
        incarnation_id=incarnation_id,
        endpoints=place.controller_endpoints,
        features=SUPPORTED,
    )
