"""A node of the simulated KRaft cluster: a voter, a controller while it leads, and a broker."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from itertools import count
from math import inf
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import result_of
from ottla.broker.controlling.active_controller import ActiveController, ControllerParts
from ottla.broker.replication.fetches import FollowerRequest, LeaderAnswer
from ottla.cluster.quorum.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleOptions,
)
from ottla.cluster.quorum.committed_image import CommittedImage
from ottla.config.broker import broker_config
from ottla.controller.context import EPOCH_DURING_DELETE
from ottla.controller.events import AlteredIsr
from ottla.controller.requests import LeaderAndIsr, PartitionOrder, StopOrder, StopReplica
from ottla.metadata.brokers import Endpoint
from ottla.metadata.changes import ImageChanges
from ottla.metadata.deciding.features import Quorum as QuorumFacts
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import image_changes
from ottla.metadata.levels import SUPPORTED
from ottla.metadata.log_writing import encoded, snapshot_parts
from ottla.metadata.record_versions import VersionedRecord
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
)
from ottla.quorum.effects import (
    Effect,
    HighWatermarkMoved,
    LeaderChanged,
    LoadSnapshot,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Send,
    SyncLog,
    WriteElectionState,
)
from ottla.quorum.log import carry_out, lineage_of, take_history
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import Request as QuorumRequest
from ottla.quorum.messages import Response as QuorumResponse
from ottla.quorum.messages import SnapshotId
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import Endpoint as VoterEndpoint
from ottla.quorum.voters import ReplicaKey, VoterHistory, VoterSet
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment
from tests.simulation.cluster_broker import MIN_ISR, ModelBroker
from tests.simulation.cluster_invariants import ClusterInvariants
from tests.simulation.kraft_requests import NOT_CONTROLLER, altered, response_to, verb_of
from tests.simulation.quorum_disk import MemoryDirectory

T = TypeVar("T")

CLUSTER_ID = "a-cluster-for-tests-01"
TICK_MS = 25
TIMEOUT_MS = 400
SESSION_MS = 900
HEARTBEAT_MS = 200
FIRST_PORT = 9000

NUMBERS = count()
CONFIG = broker_config(
    {
        "broker.session.timeout.ms": str(SESSION_MS),
        "min.insync.replicas": str(MIN_ISR),
        "metadata.max.idle.interval.ms": "200",
        "default.replication.factor": "3",
    }
)


def endpoint_of(node_id: int) -> VoterEndpoint:
    return VoterEndpoint("CONTROLLER", f"n{node_id}", FIRST_PORT + node_id)


class Surroundings(Protocol):
    """What a node needs of the world around it."""

    now_ms: float
    chance: Random
    invariants: ClusterInvariants
    counts: Counter[str]
    voters: VoterSet

    @property
    def bootstrap(self) -> list[VersionedRecord]: ...

    def at(self, delay_ms: float, action: Callable[[], None]) -> None: ...
    def delay(self) -> float: ...
    def send(self, source: "Node", to: "Node", action: Callable[[], None]) -> None: ...
    def ask(self, source: "Node", to: "Node", action: Callable[[], None]) -> None: ...
    def node(self, node_id: int) -> "Node": ...
    def new_id(self) -> Uuid: ...
    def crashes_at_write(self) -> bool: ...
    def sync_ms(self) -> float: ...
    def committed(self, node: "Node", until: int) -> None: ...
    def published(self, node: "Node", image: MetadataImage) -> None: ...


class Awaited(NamedTuple):
    """An outcome that is told when the record at `offset` is committed."""

    offset: int
    tell: Callable[[], None]
    give_up: Callable[[], None]


class Node:
    """Its disk and the logs of its broker stay; all else begins anew with each of its lives."""

    def __init__(self, world: Surroundings, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.life = 0
        self.is_up = False
        self.clock_ms = world.chance.random() * 1e6
        """What its clock is ahead of the world's."""
        self.busy_until_ms = 0.0
        self.clean_epoch = -1
        """The broker's epoch of a life that ended cleanly."""
        self.disk = MemoryDirectory()
        self.directory_id = world.new_id()
        self.broker = ModelBroker(node_id, world.invariants.look_at, truncates_on_fetch=True)
        self.controller: ActiveController | None = None

    # Its lives

    def start(self) -> None:
        world = self.world
        self._end()
        self.is_up = True
        history = VoterHistory(0, world.voters)
        take_history(self.disk, history)
        options = QuorumOptions(
            key=ReplicaKey(self.id, ZERO_UUID),
            cluster_id=CLUSTER_ID,
            endpoints=(endpoint_of(self.id),),
            election_timeout_ms=200,
            fetch_timeout_ms=400,
            election_backoff_max_ms=200,
            append_linger_ms=5,
            request_timeout_ms=TIMEOUT_MS,
            fetch_max_wait_ms=100,
        )
        self.quorum = Quorum(options, lineage_of(self.disk), history, world.chance.randrange)
        self._committed = CommittedImage(self.disk)
        self._committed_until: int | None = None
        self._has_news = False
        self.latest = self.applied = MetadataImage()
        """The last image that is committed, and the one that the broker has."""
        self.is_caught_up = False
        self._awaited: deque[Awaited] = deque()
        self._wake_ms = inf
        self._fetches: dict[TopicPartition, int] = {}
        """The last request for each partition that is followed."""
        self.broker.restart()
        world.invariants.forget_high_watermarks(self.id)
        self.lifecycle = BrokerLifecycle(self._lifecycle_options(), self.at.monotonic_ms)
        self.clean_epoch = -1
        self.act(lambda at: self.quorum.start(self.disk.election, at))
        self.later(world.chance.random() * TICK_MS, self._tick)

    def _lifecycle_options(self) -> LifecycleOptions:
        endpoint = Endpoint(
            listener="PLAINTEXT", host=f"n{self.id}", port=9092, security_protocol="PLAINTEXT"
        )
        return LifecycleOptions(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.world.new_id(),
            endpoints=(endpoint,),
            features=SUPPORTED,
            directories=(self.directory_id,),
            previous_epoch=self.clean_epoch,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            registration_timeout_ms=600_000,
        )

    def crash(self) -> None:
        """The metadata log forgets what was not synced."""
        self.kill()
        self.disk.crash(self.world.chance)

    def kill(self) -> None:
        self._end()
        later_ms = self.world.chance.choice((50, 300, 1500))
        self.world.at(later_ms, lambda: None if self.is_up else self.start())

    def _end(self) -> None:
        self.is_up = False
        self.life += 1
        self.controller = None

    @property
    def is_busy(self) -> bool:
        return self.busy_until_ms > self.world.now_ms

    @property
    def at(self) -> Timestamps:
        now_ms = self.world.now_ms + self.clock_ms
        return Timestamps(now_ms=int(now_ms), monotonic_ms=now_ms)

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Unless this life has ended; not while it stands still."""
        life, world = self.life, self.world

        def guarded() -> None:
            if life != self.life:
                return
            if self.is_busy:
                world.at(self.busy_until_ms - world.now_ms, guarded)
            else:
                action()

        world.at(delay_ms, guarded)

    # The quorum, as `QuorumThread` does it

    def act(self, call: Callable[[Timestamps], list[Effect]]) -> None:
        if self._carry_out_all(call(self.at)):
            complaint = self.quorum.take_complaint()
            assert complaint is None, complaint
            self._go_on()

    def _carry_out_all(self, effects: list[Effect]) -> bool:
        """Returns whether the node has survived it."""
        life = self.life
        for effect in effects:
            if self.world.crashes_at_write():
                self.world.counts["crashes at a write"] += 1
                self.crash()
            if life != self.life:
                return False
            self._carry_out(effect)
        return life == self.life

    def _carry_out(self, effect: Effect) -> None:
        if carry_out(effect, self.disk):
            return
        match effect:
            case WriteElectionState():
                self.disk.election = effect.state
            case SyncLog():
                self.later(self.world.sync_ms(), lambda: self._sync(effect))
            case Send():
                self._send(effect)
            case Reply():
                self._reply(effect.pending_id, effect.response)
            case ReplyRecords():
                records = self.disk.read(effect.offset, effect.max_bytes)
                self._reply(effect.pending_id, effect.response._replace(records=records))
            case ReplySnapshot():
                self._reply_snapshot(effect)
            case LeaderChanged():
                self._has_news = True
                if self.controller is not None:
                    self._give_up_controller()
            case HighWatermarkMoved():
                self._committed_until, self._has_news = effect.offset, True
            case LoadSnapshot():
                self.world.counts["snapshots loaded"] += 1
                self._committed.load(effect.snapshot)
                self._has_news = True
            case _:
                raise AssertionError(effect)

    def _sync(self, effect: SyncLog) -> None:
        is_same = self.quorum.node.log.history == effect.history
        self.disk.sync(effect.end_offset if is_same else 0)
        self.act(lambda at: self.quorum.synced(effect, at))

    def _send(self, effect: Send) -> None:
        endpoint = effect.endpoint
        to_id = effect.node_id if endpoint is None else endpoint.port - FIRST_PORT
        to, life, world = self.world.node(to_id), self.life, self.world

        def reply(response: QuorumResponse) -> None:
            world.send(to, self, lambda: answered(response))

        def answered(response: QuorumResponse | None) -> None:
            if life == self.life:
                number = effect.number
                self.act(lambda at: self.quorum.answered(number, response, at))

        world.ask(self, to, lambda: to.receive(effect.request, reply))

    def receive(self, request: QuorumRequest, reply: Callable[[QuorumResponse], None]) -> None:
        self.act(lambda at: self.quorum.receive((next(NUMBERS), reply), request, at))

    def _reply(self, pending_id: Any, response: QuorumResponse) -> None:
        pending_id[1](response)

    def _reply_snapshot(self, effect: ReplySnapshot) -> None:
        answer = effect.response
        if answer.snapshot not in self.disk.complete:
            answer = answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        else:
            content = self.disk.read_snapshot(answer.snapshot, answer.position, effect.max_bytes)
            size = self.disk.snapshot_size(answer.snapshot)
            answer = answer._replace(size=size, content=content)
        self._reply(effect.pending_id, answer)

    def _go_on(self) -> None:
        """Replays what is committed, and lets the controller do what is due."""
        life = self.life
        while life == self.life:
            until = self._committed_until
            if until is not None:
                self.world.committed(self, until)
                self._committed.advance(until, lambda: False)
            self._publish()
            if not self._lead() and until == self._committed_until:
                break
        if life == self.life:
            self._tell_committed()
            due_ms = self.quorum.deadline_ms
            if self.controller is not None:
                due_ms = min(due_ms, self.controller.deadline_ms)
            self._wake_at(due_ms - self.clock_ms)

    def _wake_at(self, due_ms: float) -> None:
        if due_ms < self._wake_ms:
            self._wake_ms = due_ms
            delay_ms = max(due_ms - self.world.now_ms, 0) + 0.1
            self.later(delay_ms, lambda: self.wake() if due_ms == self._wake_ms else None)

    def wake(self) -> None:
        self._wake_ms = inf
        self.act(self.quorum.advance)

    def _publish(self) -> None:
        if not self._has_news or self._committed_until is None:
            return
        self._has_news = False
        self.latest, _, _ = self._committed.take()
        self.world.published(self, self.latest)
        self.later(self.world.delay(), self._apply)

    # The controller

    def _lead(self) -> bool:
        """Returns whether the controller was made, or has done something."""
        if self.controller is None:
            if not self.quorum.is_leader or self._committed_until is None:
                return False
            quorum, at = self.quorum, self.at
            self.controller = ActiveController(
                self._controller_parts(), self.latest, quorum.next_offset, quorum.epoch, at
            )
            self.world.counts["controllers"] += 1
            self._append(self.controller)
        elif self.at.monotonic_ms < self.controller.deadline_ms:
            return False
        controller = self.controller
        if controller is not None:
            self._let_decide(controller, lambda _: None)
        return True

    def _controller_parts(self) -> ControllerParts:
        world = self.world
        return ControllerParts(
            node_id=self.id,
            cluster_id=CLUSTER_ID,
            config=lambda: CONFIG,
            new_id=world.new_id,
            chance=lambda: world.chance.randrange(1 << 30),
            bootstrap=world.bootstrap,
            complain=self._complain,
            quorum=lambda: QuorumFacts(self.id, sorted(world.voters.ids)),
        )

    def _complain(self, line: str) -> None:
        self.world.counts["complaints"] += 1

    def decide(
        self, verb: Callable[[ActiveController], T], done: Callable[[T | ApiError], None]
    ) -> None:
        """`done` is told the outcome when it is committed, or why it is none."""
        controller, life = self.controller, self.life
        if controller is None:
            done(NOT_CONTROLLER)
            return
        outcome = self._let_decide(controller, verb)
        if life != self.life:
            return
        if isinstance(outcome, ApiError):
            done(outcome)
        elif self.controller is not controller:
            done(NOT_CONTROLLER)
        else:
            self._awaited.append(
                Awaited(
                    self.quorum.next_offset - 1,
                    lambda: done(outcome),
                    lambda: done(NOT_CONTROLLER),
                )
            )
        self._go_on()

    def _let_decide(
        self, controller: ActiveController, verb: Callable[[ActiveController], T]
    ) -> T | ApiError:
        outcome: T | ApiError
        controller.end_offset = self.quorum.next_offset
        controller.advance(self.at)
        try:
            outcome = verb(controller)
            if isinstance(outcome, Generator):
                outcome = result_of(outcome)
        except ApiError as error:
            outcome = error
        return self._append(controller) or outcome

    def _append(self, controller: ActiveController) -> ApiError | None:
        epoch, at = self.quorum.epoch, self.at
        for batch in controller.take_batches():
            try:
                _, effects = self.quorum.append(encoded(batch), epoch, at)
            except ApiError as error:
                return error
            if not self._carry_out_all(effects) or self.controller is not controller:
                return NOT_CONTROLLER
        assert controller.end_offset == self.quorum.next_offset
        return None

    def _tell_committed(self) -> None:
        committed = self._committed.end_offset
        while self._awaited and self._awaited[0].offset < committed:
            self._awaited.popleft().tell()

    def _give_up_controller(self) -> None:
        self.controller = None
        committed = self.quorum.high_watermark
        while self._awaited:
            one = self._awaited.popleft()
            (one.tell if one.offset < committed else one.give_up)()

    def make_snapshot(self) -> None:
        """Of what is committed; later the log before it goes."""
        image = self.latest
        end = image.end_offset
        if self._committed_until is None or end <= self.disk.log_start_offset:
            return
        snapshot = SnapshotId(end, self.quorum.node.log.epoch_at(end - 1))
        if snapshot in self.disk.complete or end > self.quorum.high_watermark:
            return
        records = list(image_changes(MetadataImage(), image))
        parts = snapshot_parts(records, epoch=snapshot.epoch, now_ms=0)
        self.disk.complete[snapshot] = b"".join(parts)
        self.quorum.snapshot_made(snapshot)
        self.world.counts["snapshots"] += 1
        if self.world.chance.random() < 0.7:
            self.act(lambda at: self.quorum.delete_before(snapshot))

    # The broker

    def _tick(self) -> None:
        self._beat()
        self._replicate()
        self._alter_partitions()
        if self.lifecycle.state is BrokerState.SHUTTING_DOWN:
            self._stop()
            return
        self.later(TICK_MS, self._tick)

    def _stop(self) -> None:
        """Cleanly: the next life knows with which epoch."""
        self.world.counts["clean stops"] += 1
        life = self.life
        self.clean_epoch = self.lifecycle.epoch
        self.act(self.quorum.resign)
        if life == self.life:
            self.kill()

    def ask_controller(
        self,
        verb: Callable[[ActiveController], T],
        answered: Callable[[T | ApiError | None], None],
    ) -> None:
        """The answer is `None` if none comes in time, or there is no controller."""
        leader, life = self.quorum.node.known().leader_id, self.life
        pending = [answered]

        def once(outcome: T | ApiError | None) -> None:
            if pending and life == self.life:
                pending.pop()(outcome)

        self.later(TIMEOUT_MS, lambda: once(None))
        if leader is None:
            return
        to = self.world.node(leader)
        self.world.ask(
            self,
            to,
            lambda: to.decide(verb, lambda told: self.world.send(to, self, lambda: once(told))),
        )

    @property
    def known_offset(self) -> int:
        return (self.applied if self.is_caught_up else self.latest).end_offset

    def _beat(self) -> None:
        request = self.lifecycle.next_request(self.known_offset, self.at.monotonic_ms)
        assert self.lifecycle.failure is None, self.lifecycle.failure
        if request is None:
            return
        verb = verb_of(request)

        def answered(outcome: Any) -> None:
            self.lifecycle.answered(response_to(request, outcome), self.at.monotonic_ms)
            if isinstance(outcome, ApiError):
                self.world.counts[f"{type(request).__name__} {outcome.code.name}"] += 1
            elif isinstance(request, BrokerRegistrationRequest) and outcome is not None:
                self.broker.manager.registered(outcome)
                self._apply()

        self.ask_controller(verb, answered)

    def _replicate(self) -> None:
        world, broker = self.world, self.broker
        for leader, request in broker.manager.requests():
            number = self._fetches[request.partition] = next(NUMBERS)
            self._fetch(world.node(leader), request, number)
        if world.chance.random() < 0.1:
            broker.record_high_watermarks()
        broker.tick(self.at.monotonic_ms)

    def _fetch(self, to: "Node", request: FollowerRequest, number: int) -> None:
        """A connection's answers are matched to requests: one that is late is of a closed one."""
        life = self.life

        def take(answer: LeaderAnswer) -> None:
            if life == self.life and self._fetches[request.partition] == number:
                self.broker.take(answer)

        def arrived() -> None:
            answer = to.broker.serve(request, to.at.monotonic_ms)
            self.world.send(to, self, lambda: take(answer))

        self.world.send(self, to, arrived)

    def _alter_partitions(self) -> None:
        sent = self.broker.manager.alter_partitions
        wanted = sent.next_request()
        if wanted:
            self._ask_for_isrs(wanted)

    def _ask_for_isrs(self, wanted: tuple[AlteredIsr, ...]) -> None:
        """Again until there is an answer of the controller."""
        sent = self.broker.manager.alter_partitions
        attempt, epoch = sent.attempt, self.broker.epoch

        def answered(outcome: Any) -> None:
            if sent is not self.broker.manager.alter_partitions or sent.attempt != attempt:
                return
            if outcome is None or outcome is NOT_CONTROLLER:
                self._ask_for_isrs(sent.again())
                return
            answers = () if isinstance(outcome, ApiError) else outcome
            self.broker.altered(attempt, tuple(map(altered, answers)), self.at.monotonic_ms)

        self.ask_controller(
            lambda controller: controller.alter_partition(self.id, epoch, wanted), answered
        )

    # The broker's image, as `ImageFollower` does it

    def _apply(self) -> None:
        image = self.latest
        if image is self.applied or not (self.is_caught_up or self._has_registration(image)):
            return
        before, self.applied = self.applied, image
        changes = ImageChanges.between(before, image)
        self.broker.image_store.image = image
        if not self.is_caught_up:
            for place in [one for one in self.broker.logs if not self._is_placed(one)]:
                self.world.counts["strays"] += 1
                del self.broker.logs[place]
        stops = {
            place: StopOrder(leader_epoch=EPOCH_DURING_DELETE, delete=True)
            for place in self.broker.logs
            if not self._is_placed(place)
        }
        if stops:
            self._follow(StopReplica(orders=stops))
        self._follow(self._orders(changes.partitions))
        if not self.is_caught_up:
            self.is_caught_up = True
            self.lifecycle.ready(self.at.monotonic_ms)

    def _has_registration(self, image: MetadataImage) -> bool:
        """Whether an image is not one of the past: it has what was decided in this life."""
        broker = image.brokers.get(self.id)
        return broker is not None and broker.epoch == self.lifecycle.epoch

    def _is_placed(self, place: TopicPartition) -> bool:
        partition = self.applied.partition(place)
        return partition is not None and self.id in partition.replicas

    def _follow(self, order: LeaderAndIsr | StopReplica) -> None:
        applied = self.broker.follow(order, self.at.monotonic_ms)
        assert not any(applied.errors.values()), applied.errors

    def _orders(self, places: Iterable[TopicPartition]) -> LeaderAndIsr:
        image, orders = self.applied, {}
        for place in sorted(places):
            partition = image.partition(place)
            if partition is None or self.id not in partition.replicas:
                continue
            orders[place] = PartitionOrder(
                state=PartitionState(
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    controller_epoch=image.epoch,
                    isr=partition.isr,
                    recovery_state=partition.recovery_state,
                ),
                partition_epoch=partition.partition_epoch,
                assignment=ReplicaAssignment(
                    partition.replicas, adding=partition.adding, removing=partition.removing
                ),
                is_new=True,
            )
        ids = {place.topic: image.topics[place.topic].topic_id for place in orders}
        return LeaderAndIsr(orders=orders, topic_ids=ids, live_leaders={}, is_committed=True)
