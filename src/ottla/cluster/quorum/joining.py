"""Starts a broker as a node of a KRaft cluster: the quorum's log, its threads, its registration.

The counterpart of `cluster/joining.py: ClusterBroker`. The node listens before it takes part in the
quorum, and is registered while it serves: the controller may be this very process. Kafka's
counterparts: `SharedServer`, `BrokerServer`, `ControllerServer`.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Final, NamedTuple

from ottla.base.clock import Clock, read_clock
from ottla.base.errors import CorruptionError, RefusalError, StorageError, UserError
from ottla.base.files import FileSystem, join, read_file
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.controlling.active_controller import ActiveController, ControllerParts
from ottla.broker.membership.quorum_start import QuorumStart
from ottla.broker.metadata.bootstrap import read_bootstrap
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import SegmentLimits, find_snapshots, snapshot_name
from ottla.broker.metadata.quorum_opening import OpenedQuorum, open_quorum
from ottla.broker.metadata.quorum_snapshots import QuorumSnapshots
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.exchanges import Exchanges, exchanges_of
from ottla.cluster.internal_topics import new_topic
from ottla.cluster.place import Place
from ottla.cluster.quorum import node_options
from ottla.cluster.quorum.broker_lifecycle import BrokerState
from ottla.cluster.quorum.controller_connection import ConnectionParts, ControllerConnection
from ottla.cluster.quorum.forwarding import Forwarding, ForwardingParts
from ottla.cluster.quorum.image_publisher import Counterparts, ImagePublisher
from ottla.cluster.quorum.quorum_membership import QuorumMembership
from ottla.cluster.quorum.quorum_thread import Published, QuorumParts, QuorumThread
from ottla.cluster.quorum.replica_places import ReplicaPlaces
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import controller_protocol
from ottla.config.topic import TopicConfig
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.cluster_view import NO_CONTROLLER
from ottla.metadata.deciding.features import Quorum, check_levels
from ottla.metadata.image import MetadataImage
from ottla.metadata.levels import unserved_line
from ottla.metadata.log_files import LogReading, MetadataFile
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import FeatureLevelRecord
from ottla.quorum.messages import Known
from ottla.quorum.options import QuorumOptions
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY
from ottla.storage.files.metadata_files import has_metadata_log, metadata_folder
from ottla.storage.files.patient_files import Patience, patient_files

logger = logging.getLogger(__name__)

LONGEST_LEAVE_MS: Final = 300_000
"""How long leaderships may take to move, as in Kafka (`BrokerServer.shutdown`)."""

HASTY_LEAVE_MS: Final = 5000
"""The same for a broker whose disks have failed."""

SHORTEST_STAY_MS: Final = 300
LONGEST_STAY_MS: Final = 5_000
STAY_S: Final = 0.05
"""How long a controller that leaves stays for others, and how often it looks."""

FORWARDING_TIMEOUT_MS: Final = 60_000
"""How long a client's request is tried, as in Kafka (`NodeToControllerChannelManager`)."""

LOST_VOTES: Final = (
    "{} is missing, which says how this node has voted: it neither votes nor leads until it has "
    "heard all other voters"
)


class Told(NamedTuple):
    """`complain` gets a line for people; `failed` is called if the node cannot go on, once or
    twice, by any of its threads. `running` is called when the broker knows that it is unfenced.
    """

    complain: Callable[[str], None]
    failed: Callable[[Exception], None]
    running: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    broker: Broker
    place: Place
    opened: OpenedQuorum
    quorum: QuorumThread[ActiveController]
    publisher: ImagePublisher
    link: ControllerConnection
    forwarding: Forwarding
    exchanges: Exchanges

    def stop(self) -> None:
        """Ends all threads. Not under the broker's lock."""
        self.link.stop()
        self.forwarding.stop()
        self.exchanges.stop()
        if not self.quorum.stop():
            self.opened.log.give_up()
        self.publisher.stop()
        with suppress(StorageError):  # logged where the directory went offline
            self.opened.log.close()


class QuorumBroker:
    """The node in its cluster, until `stop`: a broker, a controller, or both."""

    def __init__(
        self,
        config: BrokerConfig,
        paths: Sequence[str],
        file_system: FileSystem,
        clock: Clock,
        told: Told,
    ) -> None:
        """Raises `UserError` for directories that are not formatted, and for settings that do not
        fit together.
        """
        self._config = config
        self._file_system = file_system
        self._clock = clock
        self._told = told
        self._identity = node_options.identity_of(config, paths, file_system)
        self._voters = node_options.settings_voters(config, self.node_id)
        self._own_directory: LogDirectory | None = None
        """That of metadata.log.dir, if it has no logs of topics."""
        self._running: RunningNode | None = None
        self._told_leader = Known(0)
        self._is_unfit = False
        self._told_unserved: str | None = None
        """Whether the cluster has levels that are not known here."""
        self._stopped = Event()
        self._patience = Patience(
            lambda time_s: self._running is None or self._stopped.wait(time_s),
            "the quorum's part of this node",
            join(self._identity.metadata_path, CLUSTER_METADATA_DIRECTORY),
        )
        self._epoch: int | None = None
        """The broker's, once it is registered."""
        self.membership: QuorumMembership[ActiveController] = QuorumMembership(
            lambda: self._is_active_controller, lambda: self._parts
        )

    @property
    def node_id(self) -> int:
        return self._identity.node_id

    @property
    def cluster_id(self) -> str:
        return self._identity.cluster_id

    @property
    def refusal(self) -> str | None:
        """Why the controllers have not admitted the broker yet, if they have said so."""
        if self._running is None:
            return None
        return self._running.link.refusal or self._running.quorum.status().refusal

    @property
    def _parts(self) -> RunningNode:
        assert self._running is not None, "call start first"
        return self._running

    @property
    def _is_active_controller(self) -> bool:
        return self._running is not None and self._running.quorum.status().is_active_controller

    def _known_leader(self) -> Known:
        return Known(0) if self._running is None else self._running.quorum.leader

    def _leaderless_since_ms(self) -> float | None:
        return None if self._running is None else self._running.quorum.status().leaderless_since_ms

    def _leader_id(self) -> int:
        leader_id = self._known_leader().leader_id
        return NO_CONTROLLER if leader_id is None else leader_id

    @property
    def state(self) -> BrokerState | None:
        """The broker's state; `None` on a node that is only a controller."""
        return self._parts.link.state

    # Before the broker is assembled

    def quorum_start(self) -> QuorumStart:
        """What the broker is assembled with: what a snapshot has was committed."""
        return QuorumStart(
            image=self._snapshot_image(),
            leader_id=self._leader_id,
            kraft_version=self._kraft_version,
        )

    def _kraft_version(self) -> int:
        return 0 if self._running is None else self._running.opened.history.kraft_version

    def _snapshot_image(self) -> MetadataImage:
        """Of the newest snapshot; what is damaged is reported when the log is opened."""
        files, path = self._file_system, self._identity.metadata_path
        try:
            folder = metadata_folder(path)
            found = find_snapshots(files, folder) if has_metadata_log(files, path) else []
            if not found:
                return MetadataImage()
            newest = found[-1]
            name = join(folder, snapshot_name(newest))
            file = MetadataFile(
                path=name,
                content=read_file(files, name),
                offset=newest.end_offset,
                epoch=newest.epoch,
            )
            reading = LogReading()
            for _ in reading.steps(file, (), may_be_torn=False):
                pass
            return reading.replay.image()
        except (CorruptionError, OSError):
            return MetadataImage()

    # The node

    def start(self, broker: Broker, place: Place) -> None:
        """Takes part in the quorum, and registers a broker that listens, which goes on by itself.

        Raises `UserError` and `StorageError` for a log that cannot be opened.
        """
        opened, options = self._open_log(broker, place)
        incarnation_id = broker.options.new_id()
        quorum = self._quorum_thread(broker, place, opened, options)
        publisher = ImagePublisher(
            broker, place, self._clock, Counterparts(self._told.complain, self._applied)
        )
        self._running = RunningNode(
            broker=broker,
            place=place,
            opened=opened,
            quorum=quorum,
            publisher=publisher,
            link=ControllerConnection(
                self._connection_parts(broker, place, incarnation_id, publisher)
            ),
            forwarding=Forwarding(self._forwarding_parts(place)),
            exchanges=exchanges_of(
                broker,
                place,
                self._clock,
                lambda: node_options.spoken_at(broker.image_store.image.level),
            ),
        )
        quorum.follow(self._published)
        publisher.start()
        quorum.start()
        self._running.forwarding.start()
        self._running.link.start()

    def _open_log(self, broker: Broker, place: Place) -> tuple[OpenedQuorum, QuorumOptions]:
        path = self._identity.metadata_path
        directory = next((one for one in broker.directories if one.path == path), None)
        if directory is None:
            directory = self._own_directory = LogDirectory.open(
                path, self._file_system, self._open_options(broker)
            )
        if directory.is_offline:
            raise StorageError(path, f"{directory.health.failure}; the quorum's log is in it")
        if self._config.has_controller_role:
            node_options.refuse_log_elsewhere(path, broker.directories, self._file_system)
        options = node_options.quorum_options(
            self._config, self._identity, directory.directory_id, place
        )
        opened = open_quorum(
            directory,
            patient_files(self._file_system, self._patience),
            self._voters,
            self._clock.now_ms,
            SegmentLimits.of(self._config),
            options.as_voter if self._config.has_controller_role else None,
        )
        if opened.election is None and self._config.has_controller_role:
            self._told.complain(LOST_VOTES.format(opened.elections.path))
        if line := node_options.lone_voter(self._config, self.node_id, opened.history.voters):
            self._told.complain(line)
        return opened, replace(options, first_voter=opened.first_voter)

    def _open_options(self, broker: Broker) -> OpenOptions:
        return OpenOptions(
            now_ms=self._clock.now_ms(),
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            new_id=broker.options.new_id,
            random_below=broker.options.random_below,
            topic_config=lambda _: TopicConfig(),
            is_replicated=True,
        )

    def _quorum_thread(
        self, broker: Broker, place: Place, opened: OpenedQuorum, options: QuorumOptions
    ) -> QuorumThread[ActiveController]:
        config = self._config
        return QuorumThread(
            QuorumParts(
                options=options,
                log=opened.log,
                elections=opened.elections,
                election=opened.election,
                history=opened.history,
                snapshots=QuorumSnapshots(
                    opened.log, SnapshotLimits.of(config), read_clock(self._clock)
                ),
                connect=place.quorum_connect or place.control_connect,
                protocol=controller_protocol(config).protocol,
                clock=self._clock,
                random_below=broker.options.random_below,
                new_controller=self._new_controller(broker, opened)
                if config.has_controller_role
                else None,
                complain=self._told.complain,
                failed=self._told.failed,
            )
        )

    def _new_controller(
        self, broker: Broker, opened: OpenedQuorum
    ) -> Callable[[MetadataImage, int, int, Timestamps], ActiveController]:
        """Raises `RefusalError` if what the directory was formatted with is damaged."""
        try:
            bootstrap = read_bootstrap(self._file_system, self._identity.metadata_path)
        except CorruptionError as error:
            raise RefusalError(f"{error}; {_mend_of_bootstrap(opened)}") from error
        history = opened.history
        parts = ControllerParts(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            config=lambda: broker.settings.config,
            new_id=broker.options.new_id,
            chance=lambda: broker.options.random_below(1 << 62),
            bootstrap=bootstrap,
            complain=self._told.complain,
            quorum=lambda: Quorum(
                node_id=self.node_id,
                voters=history.voters.ids,
                kraft_version=history.kraft_version,
                min_isr=broker.settings.config.topic_defaults.min_insync_replicas,
            ),
        )

        def elected(
            image: MetadataImage, end_offset: int, epoch: int, at: Timestamps
        ) -> ActiveController:
            """Raises `UserError` for a cluster of a level that is not known here, before anything
            is written to its log.
            """
            known = image if image.features else _formatted_for(bootstrap)
            self._check_levels(known)
            check_levels(known)
            return ActiveController(parts, image, end_offset, epoch, at)

        return elected

    def _connection_parts(
        self, broker: Broker, place: Place, incarnation_id: Uuid, publisher: ImagePublisher
    ) -> ConnectionParts:
        config, identity, replicas = self._config, self._identity, broker.replicas
        assert isinstance(replicas, Replicas), "assembled as one of a cluster"
        return ConnectionParts(
            node_id=self.node_id,
            broker=node_options.lifecycle_options(
                config, identity, incarnation_id, place, broker.directories
            )
            if config.has_broker_role
            else None,
            controller=node_options.controller_options(identity, incarnation_id, place)
            if config.has_controller_role
            else None,
            active=self._active,
            image=lambda: publisher.image,
            offline=lambda: _failed(broker.directories),
            cordoned=lambda: _cordoned(broker.directories),
            places=self._places_of(broker, replicas),
            replicas=replicas,
            lock=place.lock,
            wake=place.wake,
            connect=place.control_connect,
            quick_connect=place.quick_connect or place.control_connect,
            clock=self._clock,
            new_topic=lambda name: new_topic(name, config),
            complain=self._told.complain,
            registered=self._registered,
            changed=self._changed,
            failed=lambda line: self._told.failed(UserError(line)),
        )

    def _places_of(self, broker: Broker, replicas: Replicas) -> ReplicaPlaces:
        places = ReplicaPlaces(broker, replicas.why_not_here)
        replicas.followed = places.followed
        replicas.tells_lost = places.tells_lost
        broker.log_jobs.moves.moved = places.moved
        return places

    def _forwarding_parts(self, place: Place) -> ForwardingParts:
        return ForwardingParts(
            connect=place.forward_connect or place.control_connect,
            quick_connect=place.quick_connect or place.control_connect,
            client_id=str(self.node_id),
            controller=self._active,
            leaderless_since_ms=self._leaderless_since_ms,
            answered=self.membership.finish,
            clock=self._clock,
            timeout_ms=FORWARDING_TIMEOUT_MS,
            complain=self._told.complain,
        )

    def _active(self) -> Endpoint | None:
        """Where the active controller is, as far as is known."""
        place, listener = self._known_leader().endpoint, controller_protocol(self._config)
        if place is None:
            return None
        return Endpoint(
            listener=listener.name,
            host=place.host,
            port=place.port,
            security_protocol=listener.protocol,
        )

    def leave(self) -> None:
        """Moves leaderships to other brokers; this one serves until they have moved, or no
        controller answers. A controller stays a moment longer for brokers that leave too, as when
        a whole cluster stops: without a majority nobody could let them go.
        """
        if self._config.controlled_shutdown_enable and not self._parts.link.leave(LONGEST_LEAVE_MS):
            self._told.complain(
                "stopping without a controlled shutdown: no controller has moved all leaderships"
            )
        elif self._config.has_controller_role:
            self._stay_for_others()

    def leave_without_disks(self) -> None:
        """Has others lead what this broker led, which serves nothing any more: otherwise they would
        once its session is over. Kafka's broker tells which directories have failed, and halts.
        """
        self._parts.link.leave(HASTY_LEAVE_MS)

    def _stay_for_others(self) -> None:
        """Returns when no other broker leaves. Those that leave at the same time may not have said
        so yet, and have to hear what is committed.
        """
        begun_ms = self._clock.monotonic_ms()
        while (stayed_ms := self._clock.monotonic_ms() - begun_ms) < LONGEST_STAY_MS:
            brokers = self._parts.publisher.image.brokers
            others = [one for broker_id, one in brokers.items() if broker_id != self.node_id]
            if not others or (stayed_ms >= SHORTEST_STAY_MS and not any(map(is_leaving, others))):
                return
            self._stopped.wait(STAY_S)

    def stop(self) -> None:
        """Ends all threads; a leader of the quorum resigns. Not under the broker's lock."""
        self._stopped.set()
        if self._running is not None:
            self._running.stop()
        if self._own_directory is not None:
            self._own_directory.close()

    # Called by the threads

    def _published(self, published: Published) -> None:
        parts = self._parts
        if published.is_whole or published.changes.features:
            self._check_levels(published.image)
        if not self._is_unfit:
            parts.publisher.publish(published)
        if published.leader != self._told_leader:
            self._told_leader = published.leader
            parts.link.leader_changed()
            parts.forwarding.leader_changed()

    def _check_levels(self, image: MetadataImage) -> None:
        """A cluster of a level that is not known here is left before anything of it is applied."""
        try:
            check_levels(image)
            line = unserved_line(image.features)
            if line is not None and line != self._told_unserved:
                self._told.complain(line)
            self._told_unserved = line
        except UserError as error:
            if not self._is_unfit:
                self._is_unfit = True
                self._told.failed(error)

    def _applied(self) -> None:
        if self._parts.publisher.is_caught_up:
            self._parts.link.ready()
        own = self._parts.publisher.image.brokers.get(self.node_id)
        is_own = own is not None and own.epoch == self._epoch
        if own is not None and is_own and not own.is_fenced:
            self._told.running()

    def _registered(self, epoch: int) -> None:
        parts = self._parts
        self._epoch = epoch
        replicas = parts.broker.replicas
        assert isinstance(replicas, Replicas)
        logger.info("node %d is registered as a broker with epoch %d", self.node_id, epoch)
        with parts.place.lock:
            replicas.registered(epoch)
            for one in parts.broker.directories:
                one.broker_epoch = epoch

    def _changed(self, state: BrokerState) -> None:
        logger.info("broker %d is %s", self.node_id, state.name)


def is_leaving(broker: BrokerRegistration) -> bool:
    """Whether it waits for the controller to let it stop."""
    return broker.is_shutting_down and not broker.is_fenced


def _mend_of_bootstrap(opened: OpenedQuorum) -> str:
    if opened.log.log_end_offset:
        return "move it away: the metadata log goes on without it"
    return "format the directory again"


def _failed(directories: Sequence[LogDirectory]) -> tuple[Uuid, ...]:
    """The ids of those that are offline, as far as they are known."""
    return tuple(
        one.directory_id for one in directories if one.is_offline and one.directory_id is not None
    )


def _formatted_for(bootstrap: Sequence[VersionedRecord]) -> MetadataImage:
    """What a new log begins with, as far as levels are concerned."""
    return MetadataImage(
        features={
            record.name: record.feature_level
            for record, _ in bootstrap
            if isinstance(record, FeatureLevelRecord)
        }
    )


def _cordoned(directories: LogDirectories) -> tuple[Uuid, ...]:
    """The ids of those that get no new partitions, by `cordoned.log.dirs` as it is now."""
    return tuple(
        one.directory_id
        for one in directories
        if one.directory_id is not None and directories.is_cordoned(one)
    )
