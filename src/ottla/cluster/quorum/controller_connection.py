"""What a node of a KRaft cluster asks of the active controller for itself.

The thread `ottla-heartbeats` registers the node and keeps its session; `ottla-to-controller` sends
the rest, of which an answer may take long. Each has its own connection to the node that leads the
quorum, as far as is known here. Without a controller a broker serves on. Kafka's counterparts:
`NodeToControllerChannelManager`, `BrokerLifecycleManager`, `ControllerRegistrationManager`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Condition
from typing import Any, Final, Protocol

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.cluster.altering import isr_request
from ottla.cluster.own_requests import LeadingReplicas, OwnRequests
from ottla.cluster.peers import BACKOFF_S, Connect, Peer, PeerError
from ottla.cluster.quorum.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleOptions,
    in_version,
)
from ottla.cluster.quorum.controller_lifecycle import ControllerLifecycle, ControllerOptions
from ottla.cluster.quorum.directory_reports import DirectoryReports, Replica
from ottla.cluster.worker import Worker
from ottla.codec.schema import Message
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.image import FIRST_WITH_DIRECTORIES, MetadataImage
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.zookeeper.controllers import ProducerIdBlock

POLL_S: Final = 0.05
"""The interval of checks for changed ISRs."""

NO_LEADER_POLL_S: Final = 0.02
"""The interval of looks for a leader while none is known."""

LONGEST_POLL_S: Final = 0.2
"""How long a failed directory may wait to be told."""


class Places(Protocol):
    """Replicas that may be in other directories than the metadata says (`replica_places.py`)."""

    def __bool__(self) -> bool: ...

    def take_places(self) -> Mapping[Replica, Uuid | None]:
        """Called under the broker's lock, until there are none to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionParts:
    """The collaborators. `active` is where the active controller is, as far as is known, `image`
    the metadata that the node has applied, and `offline` and `cordoned` are the ids of log
    directories that have failed, and of those that get no new partitions at this time.

    A node that is only a controller has no `broker`, and one that is none has no `controller`.
    `registered` gets the broker's epoch, `changed` its state when that is another, and `failed` a
    line when it could not register in time; they are called by the thread of heartbeats.
    """

    node_id: int
    broker: LifecycleOptions | None
    controller: ControllerOptions | None
    active: Callable[[], Endpoint | None]
    image: Callable[[], MetadataImage]
    offline: Callable[[], tuple[Uuid, ...]]
    cordoned: Callable[[], tuple[Uuid, ...]]
    places: Places
    replicas: LeadingReplicas
    lock: AbstractContextManager[object]
    wake: Callable[[], None]
    connect: Connect
    quick_connect: Connect
    """For the session, which ends while an unreachable controller is waited for."""
    clock: Clock
    new_topic: Callable[[str], CreatableTopic]
    complain: Callable[[str], None]
    registered: Callable[[int], None]
    changed: Callable[[BrokerState], None]
    failed: Callable[[str], None]


class LeaderPeer:
    """A connection to the node that leads the quorum. For one thread, but for `close`."""

    def __init__(self, parts: ConnectionParts, connect: Connect) -> None:
        self._parts = parts
        self._peer = Peer(connect, str(parts.node_id))

    def ask(self, request: Message, newest: int | None = None) -> Any:
        """Returns the response; raises `PeerError`, also if the node is not the controller."""
        answer = self._peer.ask(self._parts.active(), request, newest)
        if getattr(answer, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            raise PeerError(ErrorCode.NOT_CONTROLLER.description)
        return answer

    def version_of(self, api_key: ApiKey) -> int:
        """The version in which a request is sent; raises `PeerError`."""
        return self._peer.version_of(self._parts.active(), api_key, None)

    def close(self) -> None:
        self._peer.close()


class ControllerConnection:
    """Both threads, from `start` to `stop`."""

    def __init__(self, parts: ConnectionParts) -> None:
        self._parts = parts
        self._heartbeats = Heartbeats(parts)
        self._own = OwnRequests(parts)
        self._reports = DirectoryReports()
        self._peer = LeaderPeer(parts, parts.connect)
        self._worker = Worker("ottla-to-controller", self._work)

    def start(self) -> None:
        self._heartbeats.start()
        if self._parts.broker is not None:
            self._worker.start()

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which a thread may wait."""
        self._worker.begin_stop()
        self._peer.close()
        self._heartbeats.stop()
        self._worker.stop()

    # For any thread

    @property
    def state(self) -> BrokerState | None:
        """The broker's state; `None` on a node that is only a controller."""
        return self._heartbeats.state

    @property
    def refusal(self) -> str | None:
        """Why the controller has not registered the broker yet, if it has said so."""
        return self._heartbeats.refusal

    def ready(self) -> None:
        """The broker has applied the metadata that it began with, and may be unfenced."""
        self._heartbeats.ready()

    def leader_changed(self) -> None:
        """Another node may lead the quorum: nobody waits for the one before."""
        self._peer.close()
        self._worker.wake()
        self._heartbeats.leader_changed()

    def leave(self, longest_ms: float) -> bool:
        """Moves leaderships to other brokers; returns whether the controller lets this one go, for
        which it is not waited longer than a session without an answer.
        """
        return self._heartbeats.leave(longest_ms)

    def create_topics(self, names: Sequence[str]) -> None:
        self._own.create_topics(names)
        self._worker.wake()

    def allocate_producer_ids(self, done: Callable[[ProducerIdBlock], None]) -> None:
        self._own.allocate_producer_ids(done)
        self._worker.wake()

    # The thread

    def _work(self) -> float:
        """Does all pending work; raises `PeerError` for a request that must be repeated."""
        epoch = self._heartbeats.epoch
        if epoch is None:
            return POLL_S  # the controller would take it for another incarnation's
        broker = self._parts.node_id, epoch
        if self._own.has_isr_changes:
            self._alter_partitions(broker)
        self._report(broker)
        self._own.ask_for_topics(self._peer.ask)
        self._own.ask_for_ids(self._peer.ask, broker)
        return POLL_S

    def _alter_partitions(self, broker: tuple[int, int]) -> None:
        attempt, changes = self._own.isr_changes()
        if not changes:
            return
        version = self._peer.version_of(ApiKey.ALTER_PARTITION)
        manager = self._parts.replicas.manager
        request = isr_request(changes, manager, version, broker, with_epochs=True)
        response = self._peer.ask(request.message, version)
        if response.error_code:
            self._worker.pause(BACKOFF_S)
        answers = [] if response.error_code else request.answers(response)
        self._own.altered(attempt, answers)

    def _report(self, broker: tuple[int, int]) -> None:
        """Tells the controller which directories replicas are in."""
        while self._parts.places:
            with self._parts.lock:
                self._reports.add(self._parts.places.take_places())
        while (request := self._reports.next_request(*broker)) is not None:
            response = None
            try:
                response = self._peer.ask(request)
            finally:
                is_taken = self._reports.answered(response)
            if not is_taken:
                self._worker.pause(BACKOFF_S)
                return


def lacks_directories(image: MetadataImage, broker: BrokerRegistration) -> bool:
    """Whether a broker was registered before the cluster had log directories."""
    return image.level >= FIRST_WITH_DIRECTORIES and not broker.directories


class Heartbeats:
    """The thread that registers the node and keeps the broker's session."""

    def __init__(self, parts: ConnectionParts) -> None:
        self._parts = parts
        now_ms = parts.clock.monotonic_ms()
        self._changed = Condition()
        """Guards the lifecycle; other threads wait for its states."""
        self._lifecycle = None if parts.broker is None else BrokerLifecycle(parts.broker, now_ms)
        self._controller = (
            None if parts.controller is None else ControllerLifecycle(parts.controller, now_ms)
        )
        self._has_failed = False
        self._active: Endpoint | None = None
        self._answered_ms = now_ms
        """When the controller was heard last, while the broker leaves."""
        self._peer = LeaderPeer(parts, parts.quick_connect)
        self._worker = Worker("ottla-heartbeats", self._work)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._worker.begin_stop()
        self._peer.close()
        self._worker.stop()

    @property
    def _now_ms(self) -> float:
        return self._parts.clock.monotonic_ms()

    @property
    def state(self) -> BrokerState | None:
        return None if self._lifecycle is None else self._lifecycle.state

    @property
    def refusal(self) -> str | None:
        return None if self._lifecycle is None else self._lifecycle.refusal

    @property
    def epoch(self) -> int | None:
        """The broker's epoch while it is registered."""
        lifecycle = self._lifecycle
        return lifecycle.epoch if lifecycle is not None and lifecycle.is_registered else None

    def ready(self) -> None:
        if self._lifecycle is not None:
            with self._changed:
                self._lifecycle.ready(self._now_ms)
            self._worker.wake()

    def leader_changed(self) -> None:
        self._peer.close()
        self._worker.wake()

    def leave(self, longest_ms: float) -> bool:
        lifecycle, options = self._lifecycle, self._parts.broker
        if lifecycle is None or options is None:
            return True
        with self._changed:
            begun_ms = self._answered_ms = self._now_ms
            lifecycle.leave(begun_ms)
            self._worker.wake()
            while lifecycle.state is not BrokerState.SHUTTING_DOWN:
                end_ms = min(begun_ms + longest_ms, self._answered_ms + options.session_timeout_ms)
                if self._now_ms >= end_ms:
                    return False
                self._changed.wait(LONGEST_POLL_S)
            return True

    # The thread

    def _work(self) -> float:
        active = self._parts.active()
        if active != self._active:
            self._active = active
            with self._changed:
                for one in (self._lifecycle, self._controller):
                    if one is not None:
                        one.hurry(self._now_ms)
        due_ms = self._now_ms + LONGEST_POLL_S * 1000
        if active is None:
            if self._lifecycle is not None:
                self._check_time(self._lifecycle)
            return NO_LEADER_POLL_S
        if self._controller is not None:
            due_ms = min(due_ms, self._register_controller(self._controller))
        if self._lifecycle is not None:
            due_ms = min(due_ms, self._keep_session(self._lifecycle))
        return max(due_ms - self._now_ms, 0.0) / 1000

    def _keep_session(self, lifecycle: BrokerLifecycle) -> float:
        """Sends what is due; returns when something is due again."""
        with self._changed:
            offline = self._parts.offline()
            if offline:
                lifecycle.directories_failed(offline, self._now_ms)
            lifecycle.cordoned(self._parts.cordoned(), self._now_ms)
            image = self._parts.image()
            lifecycle.cluster_has(image.features)
            own = image.brokers.get(self._parts.node_id)
            is_own = own is not None and own.epoch == lifecycle.epoch
            if own is not None and is_own and lacks_directories(image, own):
                lifecycle.directories_unnamed(self._now_ms)
            request = lifecycle.next_request(image.end_offset, self._now_ms)
            before = lifecycle.state, lifecycle.epoch
        self._check_time(lifecycle)
        if request is not None:
            answer = self._answer_to(request)
            with self._changed:
                lifecycle.answered(answer, self._now_ms)
                if answer is not None:
                    self._answered_ms = self._now_ms
            self._tell(lifecycle, *before)
        is_over = lifecycle.failure is not None or lifecycle.state is BrokerState.SHUTTING_DOWN
        return self._now_ms + LONGEST_POLL_S * 1000 if is_over else lifecycle.due_ms

    def _check_time(self, lifecycle: BrokerLifecycle) -> None:
        """Reports once that the broker was not registered in time."""
        with self._changed:
            lifecycle.give_up_if_late(self._now_ms)
        if lifecycle.failure is not None and not self._has_failed:
            self._has_failed = True
            self._parts.failed(lifecycle.failure)

    def _answer_to(self, request: Message) -> Any:
        """`None` without an answer of the active controller."""
        try:
            version = None
            if isinstance(request, BrokerRegistrationRequest):
                version = self._peer.version_of(ApiKey.BROKER_REGISTRATION)
                request = in_version(request, version)
            return self._peer.ask(request, version)
        except PeerError:
            return None

    def _tell(self, lifecycle: BrokerLifecycle, state: BrokerState, epoch: int) -> None:
        if lifecycle.epoch != epoch:
            self._parts.registered(lifecycle.epoch)
        if lifecycle.state is not state:
            self._parts.changed(lifecycle.state)
            with self._changed:
                self._changed.notify_all()

    def _register_controller(self, controller: ControllerLifecycle) -> float:
        with self._changed:
            request = controller.next_request(self._parts.image(), self._now_ms)
        if request is not None:
            answer = self._answer_to(request)
            with self._changed:
                refusal = controller.answered(answer, self._now_ms)
            if refusal is not None:
                self._parts.complain(f"the active controller refuses this controller: {refusal}")
        return controller.due_ms
