"""`ottla serve` with `process.roles`: a node of a KRaft cluster."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from threading import Lock, Timer
from typing import TYPE_CHECKING

from ottla.base.addresses import Address
from ottla.base.clock import Clock
from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.base.events import OnEvent
from ottla.base.files import OsFileSystem
from ottla.base.ids import is_reserved
from ottla.broker.broker import Broker
from ottla.cli.serve.broker_connections import BrokerConnections, broker_security
from ottla.cli.serve.places import Departure, advertised_endpoint, brokers_source
from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.cluster.place import Place
from ottla.cluster.quorum.joining import QuorumBroker, Told
from ottla.cluster.quorum.node_options import misplaced_voter
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import (
    Listener,
    controller_listeners,
    controller_protocol,
    inter_broker_listener,
)
from ottla.config.quorum import FIRST_NODE_ID
from ottla.config.setting import SettingError
from ottla.runtime.opening import InCluster, new_cluster_id, new_id, open_member
from ottla.storage.files.meta_properties import first_properties, properties_of

if TYPE_CHECKING:
    from ottla.cli.serve.tables import TableSource
    from ottla.client.connecting.security import Security
    from ottla.quorum.voters import Endpoint
    from ottla.server.network.listener import Server

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""How long a broker waits for controllers before it says that it listens."""


class Quorate:
    """A node and its cluster, from `open_broker` to `close`."""

    def __init__(self, config: BrokerConfig, paths: Sequence[str], clock: Clock) -> None:
        """Raises `UserError` for settings that do not fit together, and for directories that are
        not formatted; a node that is to be a cluster by itself formats its own.
        """
        if config.zookeeper_connect:
            raise _together("zookeeper.connect", config.zookeeper_connect)
        security = broker_security(_of_controllers(config), controller_protocol(config))
        _check_mechanism(security, config)
        self._config = config
        self._paths = paths
        self._clock = clock
        self._departure = Departure()
        self._failure: Exception | None = None
        self._server: Server | None = None
        if not config.has_other_nodes:
            config.check_replicas()
            _format_if_new(config, paths, clock)
        self._announcement = Announcement(lambda: self._cluster.refusal)
        told = Told(lambda line: logger.warning("%s", line), self._failed, self._announcement.make)
        self._cluster = QuorumBroker(config, paths, OsFileSystem(), clock, told)
        complaint = misplaced_voter(config, self._cluster.node_id)
        if complaint is not None:
            logger.warning("%s", complaint)

    def open_broker(
        self, values: Mapping[str, str], progress: RecoveryProgress, on_event: OnEvent
    ) -> Broker:
        return open_member(
            self._paths,
            {**values, "node.id": str(self._cluster.node_id)},
            InCluster(
                self._cluster.cluster_id, self._cluster.membership, self._cluster.quorum_start()
            ),
            clock=self._clock,
            on_progress=progress,
            on_event=on_event,
        )

    def start(
        self,
        broker: Broker,
        listeners: Sequence[Listener],
        server: "Server",
        lock: AbstractContextManager[object],
    ) -> None:
        """Takes part in the quorum, once the server listens."""
        self._server = server
        config = broker.settings.config
        controllers = {one.name for one in controller_listeners(config)}
        pairs = list(zip(listeners, server.addresses, strict=True))
        control = controller_protocol(config)
        clients = [one for one in listeners if one.name not in controllers]
        own = inter_broker_listener(config, clients) if clients else control
        timeout_s = self._config.replica_socket_timeout_ms / 1000

        def to_controllers(
            limit_ms: float, *, setup_ms: float | None = None, keeps_memory: bool = True
        ) -> BrokerConnections:
            return BrokerConnections(
                lambda: _of_controllers(broker.settings.config),
                control,
                limit_ms / 1000,
                setup_timeout_s=None if setup_ms is None else setup_ms / 1000,
                keeps_memory=keeps_memory,
            )

        place = Place(
            lock=lock,
            wake=server.wake,
            connect=BrokerConnections(lambda: broker.settings.config, own, timeout_s),
            listener=own.name,
            control_connect=to_controllers(timeout_s * 1000),
            quick_connect=to_controllers(self._config.broker_session_timeout_ms / 2),
            # The machine asks again after this time, and a connection must not take longer.
            quorum_connect=to_controllers(self._config.controller_quorum_request_timeout_ms),
            # A controller that stands still is not waited for: another is elected meanwhile.
            forward_connect=to_controllers(
                timeout_s * 1000,
                setup_ms=self._config.controller_quorum_request_timeout_ms,
                keeps_memory=False,
            ),
            control_listener=control.name,
            endpoints=tuple(
                advertised_endpoint(*one) for one in pairs if one[0].name not in controllers
            ),
            controller_endpoints=tuple(
                advertised_endpoint(*one) for one in pairs if one[0].name in controllers
            ),
        )
        self._cluster.start(broker, place)

    def when_usable(self, announce: Callable[[], None]) -> None:
        """A broker is usable when the controllers have unfenced it; one that waits for them for
        long says so, and that it listens.
        """
        if not self._config.has_broker_role:
            announce()
            return
        self._announcement.expect(announce)

    def table_source(self, addresses: Sequence[Address]) -> "TableSource":
        return brokers_source(addresses, self._cluster.node_id)

    def before_last_answer(self, finish: Callable[[], None]) -> None:
        """Called while the server still answers, after leaderships were handed over."""
        self._departure.finish = finish

    def stop(self, server: "Server") -> None:
        """Hands leaderships over while the server still serves, then stops the broker; once."""

        def leave() -> None:
            if self._failure is None:
                self._cluster.leave()
            else:
                self.leave_without_disks()

        self._departure.begin(leave, server)

    def leave_without_disks(self) -> None:
        """Also without that of the metadata log, by which a node ends itself."""
        if self._failure is None or isinstance(self._failure, StorageError):
            self._cluster.leave_without_disks()

    def close(self) -> None:
        """Raises what has ended the node by itself."""
        self._cluster.stop()
        if self._failure is not None:
            raise self._failure

    def _failed(self, error: Exception) -> None:
        """Called in the cluster's threads: the node cannot go on, as `close` says."""
        if self._failure is None:
            self._failure = error
            if self._server is not None:
                self.stop(self._server)


class Announcement:
    """Made once: when the broker is usable, or when it has waited for the controllers for long."""

    def __init__(self, refusal: Callable[[], str | None]) -> None:
        self._lock = Lock()
        self._refusal = refusal
        self._announce: Callable[[], None] | None = None
        self._is_due = False

    def expect(self, announce: Callable[[], None]) -> None:
        with self._lock:
            self._announce = announce
            is_due = self._is_due
        if is_due:
            self.make()
            return
        timer = Timer(PATIENCE_S, self._give_up)
        timer.daemon = True
        timer.start()

    def make(self) -> None:
        """Called by any thread, and any number of times."""
        with self._lock:
            announce, self._announce = self._announce, None
            self._is_due = True
        if announce is not None:
            announce()

    def _give_up(self) -> None:
        if not self._is_due:
            refusal = self._refusal()
            logger.warning(
                "no controller has admitted this broker in %.0f s%s; it listens, and serves "
                "clients once %s",
                PATIENCE_S,
                f": {refusal}" if refusal else "",
                "it is admitted" if refusal else "a majority of the controllers is up",
            )
            self.make()


def _of_controllers(config: BrokerConfig) -> BrokerConfig:
    """The settings for requests to controllers, whose login has a mechanism of its own."""
    if "sasl.mechanism.controller.protocol" not in config.given:
        return config
    mechanism = config.sasl_mechanism_controller_protocol
    return replace(config, sasl_mechanism_inter_broker_protocol=mechanism)


def _check_mechanism(security: "Security", config: BrokerConfig) -> None:
    """Raises `UserError` for controllers that could never elect the first leader."""
    count = max(len(config.voters), len(config.bootstrap_controllers))
    if not security.mechanism.startswith("SCRAM-") or not config.has_controller_role or count < 2:
        return
    raise UserError(
        f"sasl.mechanism.controller.protocol={security.mechanism}: users of SCRAM are in the log "
        "whose leader several controllers elect only once they have logged in to each other; "
        "use PLAIN, OAUTHBEARER, or SSL with ssl.client.auth=required"
    )


def _format_if_new(config: BrokerConfig, paths: Sequence[str], clock: Clock) -> None:
    """Makes a cluster of one node; raises `UserError`."""
    every = [*paths, *filter(None, [config.metadata_log_dir])]
    with suppress(CorruptionError):  # whoever opens the directories says so
        if first_properties(every, OsFileSystem()) is None:
            _format(config, paths, clock)
        elif not config.controller_quorum_voters:
            _begin(config, config.metadata_log_dir or paths[0], clock)


def _format(config: BrokerConfig, paths: Sequence[str], clock: Clock) -> None:
    """Raises `UserError`."""
    from ottla.broker.metadata.formatting import FormatOptions, format_directories
    from ottla.metadata.deciding.features import feature_records, new_features

    node_id = config.wanted_node_id
    options = FormatOptions(
        node_id=FIRST_NODE_ID if node_id is None else node_id,
        cluster_id=new_cluster_id(),
        records=feature_records(new_features()),
        now_ms=clock.now_ms(),
        new_id=new_id,
        metadata_directory=config.metadata_log_dir,
        standalone=_own_endpoint(config),
    )
    format_directories(paths, OsFileSystem(), options)


def _begin(config: BrokerConfig, path: str, clock: Clock) -> None:
    """A broker by itself that nothing was asked of has no metadata log; raises `UserError`."""
    from ottla.broker.metadata.formatting import begin_as_first_voter
    from ottla.metadata.deciding.features import feature_records, new_features
    from ottla.quorum.voters import ReplicaKey, Voter

    files = OsFileSystem()
    try:
        known = properties_of(files, path)
        if known is None or known.node_id is None or known.directory_id is None:
            return  # whoever opens the directories says what is wrong with it
        if is_reserved(known.directory_id):
            return  # as before
        own = Voter(ReplicaKey(known.node_id, known.directory_id), (_own_endpoint(config),))
        begin_as_first_voter(path, files, own, feature_records(new_features()), clock.now_ms())
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}") from error


def _own_endpoint(config: BrokerConfig) -> "Endpoint":
    """Raises `UserError`."""
    from ottla.quorum.voters import Endpoint

    (listener, *_) = controller_listeners(config)
    host, port = listener.advertised or listener.address
    if not port:
        raise UserError(
            f"listeners={','.join(config.listeners)}: {listener.name} needs a port, by which other "
            "controllers find this one"
        )
    return Endpoint(listener.name, host, port)


def _together(name: str, text: str) -> SettingError:
    message = (
        f"{name}={text}: a node with process.roles has its metadata from controllers, not from "
        "ZooKeeper; take one of the two out"
    )
    return SettingError(name, message, message)
