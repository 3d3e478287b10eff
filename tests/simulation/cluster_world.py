"""Brokers, a controller among them, and a ZooKeeper, from a seed; time is simulated.

Sessions expire, requests are lost, late and doubled, processes are killed, paused and slowed by
their disks and come back, clocks jump, log directories fail, while topics are created, grow, move
and are deleted, and a client writes with acks=all. Asserted at every
step: leader epochs never go back, and what `cluster_invariants.py` says of records. In the end
everything that was asked for is done. Brokers are of 3.9, or of before 2.7: then leaders write the
states' nodes themselves, and followers ask where their leader's epochs ended.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.replication.alter_partitions import (
    IsrChangePropagation,
    place_of,
    write_states,
)
from ottla.broker.replication.fetches import Fetched, FollowerRequest, LeaderAnswer
from ottla.config.inter_broker_version import LATEST, parse_inter_broker_version
from ottla.controller.channels import Channels
from ottla.controller.events import (
    AlteredAnswer,
    AlteredIsr,
    AlterPartition,
    AlterReassignments,
    Answer,
    ControlledShutdown,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DeletionAnswered,
    Elect,
    ElectLeaders,
    Event,
    LeaderAndIsrAnswered,
    NodeChanged,
    RebalanceDue,
    Request,
    SessionLost,
)
from ottla.controller.machine import ControllerMachine
from ottla.controller.operations import Batch, Create, Outcome, Result
from ottla.controller.parts import ControllerOptions
from ottla.controller.requests import LeaderAndIsr, Outgoing, StopReplica
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.placement import Start, placing
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import encode_broker
from ottla.zookeeper.notices import encode_log_dir_event
from ottla.zookeeper.topics import NO_LEADER, decode_state, decode_topic
from tests.simulation.cluster_broker import ModelBroker
from tests.simulation.cluster_invariants import AnyBroker, ClusterInvariants, ZooKeeperFacts
from tests.simulation.cluster_logs import LogBroker
from tests.support.brokers import NOW_MS
from tests.support.model_zookeeper import ModelZooKeeper, Session

SESSION_MS = 600
TICK_MS = 25
CHAOS_MS = 9_000
DEADLINE_MS = 30_000
TIMEOUT_MS = 90
DAY_MS = 86_400_000


class Process:
    """A broker's process: its logs or a model of them, a controller's machine, a session."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.clock = ProcessClock(world)
        self.broker: AnyBroker = world.new_broker(self)
        self.is_up = False
        self.is_registered = False
        """Since the process began; only then it listens, as Kafka's brokers do."""
        self.life = 0
        self.busy_until_ms = self.slow_until_ms = 0.0
        self.reported_failures = 0
        self.session: Session | None = None
        self.propagation = IsrChangePropagation(linger_ms=40, max_delay_ms=200)

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.is_registered = False
        self.busy_until_ms = self.slow_until_ms = 0.0
        self.reported_failures = 0
        self.clock.restart()
        self.broker.restart()
        self.world.invariants.forget_high_watermarks(self.id)
        self.machine = ControllerMachine(
            ControllerOptions(broker_id=self.id, version=self.world.version)
        )
        self.channels = Channels()
        self.in_flight: dict[int, Outgoing] = {}
        self.is_asking = False
        self.session = None
        self.pending: dict[object, Callable[[Answer], None]] = {}
        self.propagation = IsrChangePropagation(linger_ms=40, max_delay_ms=200)
        self.contact_ms = self.world.now_ms
        self.later(0, self.tick)

    def kill(self) -> None:
        self.is_up = False
        self.life += 1

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Unless the process is killed before; one thing at a time, and nothing in a pause."""
        life, world = self.life, self.world

        def guarded() -> None:
            if life != self.life:
                return
            if self.is_busy:
                world.at(self.busy_until_ms - world.now_ms, guarded)
                return
            if world.now_ms < self.slow_until_ms:
                self.busy_until_ms = world.now_ms + world.chance.choice((0, 1, 10))
            action()

        world.at(delay_ms, guarded)

    @property
    def is_busy(self) -> bool:
        return self.busy_until_ms > self.world.now_ms

    # ZooKeeper

    def tick(self) -> None:
        world = self.world
        if self.id not in world.cut_off:
            self.contact_ms = world.now_ms
            if self.session is None or not self.session.is_alive:
                self._register()
        self._replicate()
        self._send()
        self.later(TICK_MS, self.tick)

    def _register(self) -> None:
        if self.session is not None:
            self.broker.fence()
            assert self.broker.led() == []
            self.machine.receive(SessionLost())
            self.is_asking = False
            self.channels.clear()
            self.in_flight.clear()
            self._take_answers()
        session = self.world.zookeeper.connect(self._watched)
        self.session = session
        self._claim(session)

    def _claim(self, session: Session) -> None:
        """The node of the session before must be gone."""
        if session is not self.session or not session.is_alive:
            return
        if self.id in self.world.cut_off:
            self.later(TICK_MS, lambda: self._claim(session))
            return
        content = encode_broker(BrokerRegistration(endpoints=()))
        create = Create(paths.broker_path(self.id), content, is_ephemeral=True)
        (result,) = self.world.zookeeper.execute(session, Batch(operations=(create,)))
        if result.outcome is Outcome.NODE_EXISTS:
            self.later(TICK_MS, lambda: self._claim(session))
            return
        self.broker.manager.registered(result.czxid)
        self.is_registered = True
        self.receive(Elect())

    def _watched(self, path: str) -> None:
        session = self.session
        if self.is_up:
            self.later(
                self.world.delay(),
                lambda: self.receive(NodeChanged(path)) if session is self.session else None,
            )

    def ask(self, batch: Batch) -> None:
        session = self.session
        self.is_asking = True

        def carry_out() -> None:
            # What is under way is carried out though the process is paused or killed meanwhile.
            if session is None or not session.is_alive:
                return  # the session's end is noticed at a tick
            if self.id in self.world.cut_off:
                self.world.at(TICK_MS, carry_out)
                return
            results = self.world.zookeeper.execute(session, batch)
            if self.world.chance.random() < 0.02:
                self.world.counts["asked twice"] += 1
                results = self.world.zookeeper.execute(session, batch)
            self.later(self.world.delay(), lambda: self._go_on(session, results))

        self.world.at(self.world.delay(), carry_out)

    def _go_on(self, session: Session, results: tuple[Result, ...]) -> None:
        if session is self.session:
            self.is_asking = False
            self.pump(results)

    # The controller

    def receive(self, event: Event) -> None:
        self.machine.receive(event)
        self.pump()

    def pump(self, results: tuple[Result, ...] | None = None) -> None:
        if self.is_asking:
            return
        was_active = self.machine.is_active
        batch = self.machine.advance(results)
        if self.machine.is_active and not was_active:
            self.world.counts["controllers"] += 1
        assert self.machine.take_complaints() == []
        self.channels.put(self.machine.take_outgoing())
        self._take_answers()
        if not self.machine.is_active:
            self.channels.clear()
        if batch is not None:
            self.ask(batch)
        self._send()

    def _take_answers(self) -> None:
        for pending_id, answer in self.machine.take_answers():
            reply = self.pending.pop(pending_id, None)
            if reply is not None:
                reply(answer)

    def serve(self, request: Request, reply: Callable[[Answer], None]) -> None:
        self.pending[request.pending_id] = reply
        self.receive(request)

    def _send(self) -> None:
        """To each broker one request at a time."""
        self.channels.keep(self.machine.context.brokers)
        for broker in self.channels.brokers():
            request = self.channels.next_for(broker)
            if request is not None and self.in_flight.get(broker) is not request:
                self.in_flight[broker] = request
                self._send_one(self.world.processes[broker], request)

    def _send_one(self, to: "Process", request: Outgoing) -> None:
        def arrived() -> None:
            if not to.is_registered:
                return  # nobody listens yet: the order may be one for the process before
            applied = to.broker.apply(request, self.id, to.clock.monotonic_ms)
            errors = applied.errors if applied.error is ErrorCode.NONE else {}
            self.world.send(to, self, lambda: self._answered(request, errors))

        def again() -> None:
            if self.in_flight.get(request.broker) is request:
                del self.in_flight[request.broker]

        self.world.send(self, to, arrived)
        self.later(TIMEOUT_MS, again)

    def _answered(self, request: Outgoing, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        if self.channels.next_for(request.broker) is not request:
            return
        self.channels.answered(request)
        self.in_flight.pop(request.broker, None)
        broker, epoch = request.broker, request.broker_epoch
        if errors and isinstance(request.order, LeaderAndIsr):
            self.receive(LeaderAndIsrAnswered(broker=broker, broker_epoch=epoch, errors=errors))
        elif errors and isinstance(request.order, StopReplica):
            stops = request.order.orders
            deleted = {one: error for one, error in errors.items() if stops[one].delete}
            self.receive(DeletionAnswered(broker=broker, broker_epoch=epoch, errors=deleted))
        self._send()

    # Replication

    def _replicate(self) -> None:
        world, broker = self.world, self.broker
        for leader, request in broker.manager.requests():
            to = world.processes[leader]

            def arrived(to: "Process" = to, request: FollowerRequest = request) -> None:
                answer = to.broker.serve(request, to.clock.monotonic_ms)
                world.count_answer(answer)
                world.send(to, self, lambda: broker.take(answer))

            world.send(self, to, arrived)
        if world.chance.random() < 0.1:
            broker.record_high_watermarks()
        broker.tick(self.clock.monotonic_ms)
        self._report_failed_directories()
        wanted = broker.manager.alter_partitions.next_request()
        if wanted and not world.version.has_alter_partition:
            self._write_states(wanted)
        elif wanted:
            self._ask_controller(wanted)
        content = self.propagation.due(world.now_ms)
        if content is not None and self.is_connected:
            path = f"{paths.ISR_CHANGE_PREFIX}{next(world.numbers):010d}"
            world.zookeeper.apply(Create(path, content))
            self.propagation.propagated(world.now_ms)

    @property
    def is_connected(self) -> bool:
        is_alive = self.session is not None and self.session.is_alive
        return is_alive and self.id not in self.world.cut_off

    def _report_failed_directories(self) -> None:
        failures = self.broker.storage_failures
        if failures > self.reported_failures and self.is_connected:
            self.reported_failures = failures
            path = f"{paths.LOG_DIR_EVENT_PREFIX}{next(self.world.numbers):010d}"
            self.world.zookeeper.apply(Create(path, encode_log_dir_event(self.id)))

    def _ask_controller(self, wanted: tuple[AlteredIsr, ...]) -> None:
        """Again until there is an answer that is not NOT_CONTROLLER."""
        sent = self.broker.manager.alter_partitions
        attempt, to = sent.attempt, self.world.processes.get(self.broker.controller)
        if to is not None:
            request = AlterPartition(
                pending_id=next(self.world.numbers),
                broker=self.id,
                broker_epoch=self.broker.epoch,
                changes=wanted,
            )

            def answered(answer: Answer) -> None:
                self.world.send(to, self, lambda: self._altered(attempt, answer))

            self.world.send(self, to, lambda: to.serve(request, answered))

        def again() -> None:
            if sent.attempt == attempt and sent.in_flight:
                self._ask_controller(sent.again())

        self.later(TIMEOUT_MS, again)

    def _altered(self, attempt: int, answer: Answer) -> None:
        if any(one.error is ErrorCode.NOT_CONTROLLER for one in answer.altered):
            return
        if answer.error is not ErrorCode.NOT_CONTROLLER:
            self.broker.altered(attempt, answer.altered, self.clock.monotonic_ms)

    def _write_states(self, wanted: tuple[AlteredIsr, ...]) -> None:
        """In place of the controller, in the session in which the broker leads."""
        manager, session = self.broker.manager, self.session
        attempt = manager.alter_partitions.attempt
        steps = write_states(wanted, self.id, manager.controller_epoch)

        def go_on(results: tuple[Result, ...] | None) -> None:
            try:
                batch = steps.send(results)
            except StopIteration as done:
                self._states_written(attempt, done.value)
            else:
                self.world.at(self.world.delay(), lambda: carry_out(batch))

        def carry_out(batch: Batch) -> None:
            if session is None or not session.is_alive:
                # Nothing more is written in it, and nobody knows what was.
                self.later(0, lambda: self._states_written(attempt, ()))
            elif self.id in self.world.cut_off:
                self.world.at(TICK_MS, lambda: carry_out(batch))
            else:
                results = self.world.zookeeper.execute(session, batch)
                if self.world.chance.random() < 0.05:
                    results = self.world.zookeeper.execute(session, batch)
                self.later(self.world.delay(), lambda: go_on(results))

        go_on(None)

    def _states_written(self, attempt: int, answers: tuple[AlteredAnswer, ...]) -> None:
        for answer in answers:
            if answer.error is ErrorCode.NONE:
                self.propagation.record(place_of(answer.change), self.world.now_ms)
                self.world.counts["states written"] += 1
        self.broker.altered(attempt, answers, self.clock.monotonic_ms)


class ProcessClock:
    """A process's clocks: a monotonic one with an origin of its own, and the time of day."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._origin_ms = 0.0
        self._wrong_by_ms = 0

    def restart(self) -> None:
        self._origin_ms = self._world.chance.random() * DAY_MS

    def jump(self, ms: int) -> None:
        """Sets the time of day, as administrators and NTP do."""
        self._wrong_by_ms = ms

    @property
    def monotonic_ms(self) -> float:
        return self._origin_ms + self._world.now_ms

    @property
    def at(self) -> Timestamps:
        now_ms = NOW_MS + self._wrong_by_ms + int(self._world.now_ms)
        return Timestamps(now_ms=now_ms, monotonic_ms=self.monotonic_ms)


class World:
    def __init__(
        self, seed: int, broker_count: int | None = None, *, has_real_logs: bool = False
    ) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 0.0
        self.counts: Counter[str] = Counter()
        self.numbers = count()
        self.zookeeper = ModelZooKeeper(on_write=self._written)
        self.cut_off: set[int] = set()
        self.blocked: set[tuple[int, int]] = set()
        is_old = self.chance.random() < 0.3
        self.version = parse_inter_broker_version("2.6") if is_old else LATEST
        self.has_real_logs = has_real_logs
        self.invariants = ClusterInvariants(ZooKeeperFacts(self.zookeeper), self.counts)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        size = broker_count or self.chance.choice((3, 4, 5))
        self.processes = {number: Process(self, number) for number in range(size)}
        self.invariants.brokers = {one.id: one.broker for one in self.processes.values()}
        self.topics: list[str] = []
        self.is_calm = False

    def new_broker(self, process: Process) -> AnyBroker:
        look_at, is_old = self.invariants.look_at, self.version != LATEST
        if self.has_real_logs:
            version = "2.6" if is_old else "3.9"
            return LogBroker(process.id, look_at, process.clock, version=version)
        return ModelBroker(process.id, look_at, truncates_on_fetch=self.version.truncates_on_fetch)

    # Time, and the network

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self.numbers), action))

    def delay(self) -> float:
        return self.chance.choice((1, 2, 4, 8)) + self.chance.random()

    def send(self, source: Process, to: "Process", action: Callable[[], None]) -> None:
        """Lost where the network is cut, or by chance."""
        if (source.id, to.id) in self.blocked or self.chance.random() < 0.01:
            self.counts["lost"] += 1
        else:
            to.later(self.delay(), lambda: action() if to.is_up else None)

    def run(self) -> None:
        for process in self.processes.values():
            self.at(self.chance.random() * 100, process.start)
        self.at(1, self._watch_sessions)
        self.at(300, self._chaos)
        self.at(300, self._administer)
        self.at(300, self._write)
        self.at(CHAOS_MS, self._calm_down)
        while not (self.is_calm and self._is_settled()):
            assert self.now_ms < DEADLINE_MS, self._what_is_left()
            until = self.now_ms + 200
            while self._due and self._due[0][0] <= until:
                self.now_ms, _, action = heapq.heappop(self._due)
                action()
            self.now_ms = until
        self._compare_logs()

    def _watch_sessions(self) -> None:
        for session in list(self.zookeeper.sessions.values()):
            owner = next((x for x in self.processes.values() if x.session is session), None)
            is_silent = owner is None or self.now_ms - owner.contact_ms > SESSION_MS
            if session.is_alive and is_silent:
                self.counts["expired"] += 1
                self.zookeeper.expire(session)
        self.at(TICK_MS, self._watch_sessions)

    # Chaos

    def _chaos(self) -> None:
        if self.is_calm:
            return
        chance = self.chance
        process = chance.choice(list(self.processes.values()))
        match chance.randrange(10):
            case 0 if process.is_up and sum(x.is_up for x in self.processes.values()) > 1:
                self.counts["kills"] += 1
                process.kill()
                self.at(chance.choice((50, 300, 1500)), process.start)
            case 1:
                self.cut_off.add(process.id)
                self.at(chance.choice((100, 900)), lambda: self.cut_off.discard(process.id))
            case 2 | 3:
                others = [one for one in self.processes if one != process.id]
                other = chance.choice(others)
                pairs = {(process.id, other)} | (
                    {(other, process.id)} if chance.random() < 0.5 else set()
                )
                self.blocked |= pairs
                self.at(chance.choice((200, 1200)), lambda: self.blocked.difference_update(pairs))
            case 4 if process.is_up and process.broker.epoch != -1:
                self._shut_down(process)
            case 5 if paths.CONTROLLER in self.zookeeper.nodes and chance.random() < 0.5:
                # As administrators do; there are two controllers until the old one hears of it.
                self.counts["deposed"] += 1
                self.zookeeper.delete(paths.CONTROLLER)
            case 6:
                # Shorter and longer than a session; what it was sent and has sent stays under way.
                self.counts["pauses"] += 1
                process.busy_until_ms = self.now_ms + chance.choice((40, 300, 1500))
            case 7:
                self.counts["slow disks"] += 1
                process.slow_until_ms = self.now_ms + chance.choice((300, 1500))
            case 8:
                self.counts["clock jumps"] += 1
                process.clock.jump(chance.choice((-400, -1, 0, 1, 400)) * DAY_MS)
            case 9 if process.is_up and chance.random() < 0.5:
                self.counts["failed directories"] += process.broker.fail_directory(chance)
            case _:
                pass
        self.at(chance.random() * 500, self._chaos)

    def _shut_down(self, process: Process) -> None:
        """Asks the controller first, and goes whether or not it answers."""
        to = self.processes.get(process.broker.controller)
        self.counts["shutdowns"] += 1
        if to is not None:
            request = ControlledShutdown(
                pending_id=next(self.numbers),
                broker=process.id,
                broker_epoch=process.broker.epoch,
            )
            self.send(process, to, lambda: to.serve(request, lambda answer: None))
        process.later(150, lambda: (process.kill(), self.at(400, process.start))[0])

    def _calm_down(self) -> None:
        self.is_calm = True
        self.cut_off.clear()
        self.blocked.clear()
        for process in self.processes.values():
            if not process.is_up or process.broker.has_failed_directory:
                process.kill()  # Only a start finds that a directory works again.
                process.start()

    # What is asked of the controller

    def _administer(self) -> None:
        if self.is_calm:
            return
        active = [one for one in self.processes.values() if one.is_up and one.machine.is_active]
        if active:
            request = self._request()
            if isinstance(request, RebalanceDue):
                active[0].later(0, lambda: active[0].receive(request))
            else:
                self.counts[type(request).__name__] += 1
                active[0].later(0, lambda: active[0].serve(request, lambda answer: None))
        self.at(self.chance.random() * 250, self._administer)

    def _request(self) -> Request | RebalanceDue:
        chance, number = self.chance, next(self.numbers)
        known = [one for one in self.topics if paths.topic_path(one) in self.zookeeper.nodes]
        if len(known) < 2 or chance.random() < 0.1:
            topic = f"t{number}"
            self.topics.append(topic)
            placed = self._place(0, chance.choice((1, 2, 4)))
            topic_id = Uuid(number.to_bytes(16, "big"))
            return CreateTopic(pending_id=number, topic=topic, assignment=placed, topic_id=topic_id)
        topic = chance.choice(known)
        content = self.zookeeper.content(paths.topic_path(topic))
        partitions = decode_topic(topic, content).partitions
        partition = TopicPartition(topic, chance.choice(sorted(partitions)))
        match chance.randrange(8):
            case 0 if len(known) > 2:
                return DeleteTopic(pending_id=number, topic=topic)
            case 1 if len(partitions) < 6:
                grown = self._place(len(partitions), 1)
                return CreatePartitions(pending_id=number, topic=topic, assignment=grown)
            case 2:
                return AlterReassignments(pending_id=number, wanted={partition: None})
            case 3 | 4 | 5:
                size = chance.choice((2, 3))
                target = tuple(chance.sample(sorted(self.processes), size))
                return AlterReassignments(pending_id=number, wanted={partition: target})
            case 6:
                return RebalanceDue()
            case _:
                return ElectLeaders(pending_id=number, partitions=None)

    def _place(self, first: int, size: int) -> dict[int, tuple[int, ...]]:
        brokers = dict.fromkeys(self.processes)
        start = Start(
            index=self.chance.randrange(len(brokers)),
            shift=self.chance.randrange(len(brokers)),
            partition=first,
        )
        return dict(placing(brokers, size, 3, start))

    # A client that writes with acks=all

    def _write(self) -> None:
        if self.is_calm:
            return
        for process in self.processes.values():
            is_awake = process.is_up and not process.is_busy
            for partition in process.broker.led() if is_awake else ():
                if self.chance.random() < 0.3:
                    value = f"v{next(self.numbers)}"
                    error = process.broker.produce(partition, value, process.clock.monotonic_ms)
                    self.counts[error.name] += error is not ErrorCode.NONE
                if self.chance.random() < 0.01:
                    self._delete_records(process.broker, partition)
        self.at(30, self._write)

    def _delete_records(self, broker: AnyBroker, partition: TopicPartition) -> None:
        hosted, log = broker.hosted(partition), broker.logs[partition]
        if hosted is not None and hosted.local.high_watermark > log.log_start_offset:
            self.counts["records deleted"] += 1
            end = hosted.local.high_watermark
            offset = self.chance.randint(log.log_start_offset + 1, end)
            broker.delete_records(partition, offset)
            log_start = self.invariants.first_to_compare(partition, log)
            self.invariants.deleted[partition] = log_start

    def count_answer(self, answer: LeaderAnswer) -> None:
        self.counts[answer.error.name] += answer.error is not ErrorCode.NONE
        self.counts["diverging"] += isinstance(answer, Fetched) and answer.diverging is not None

    def _written(self, path: str, before: bytes | None, after: bytes | None) -> None:
        if path.endswith("/state") and before is not None:
            topic, partition = path.split("/")[3], int(path.split("/")[5])
            place = TopicPartition(topic, partition)
            old, new = decode_state(place, before), decode_state(place, after)
            assert new.leader_epoch >= old.leader_epoch, path
            assert new.controller_epoch >= old.controller_epoch, path
            assert new.isr, path
            assert new.leader == NO_LEADER or new.leader in new.isr, path
            if new.leader_epoch == old.leader_epoch:
                assert new.leader == old.leader, path
            elif old.isr:
                # Nobody outside the ISR is elected.
                assert set(new.isr) <= set(old.isr), path

    # The end

    def _is_settled(self) -> bool:
        return not self._what_is_left()

    def _what_is_left(self) -> list[str]:
        zookeeper = self.zookeeper
        left = [f"deletion of {one}" for one in zookeeper.children(paths.DELETE_TOPICS)]
        active = [one.id for one in self.processes.values() if one.machine.is_active]
        if len(active) != 1:
            left.append(f"controllers {active}")
        for topic in zookeeper.children(paths.TOPICS):
            known = decode_topic(topic, zookeeper.content(paths.topic_path(topic)))
            for number, assignment in known.partitions.items():
                partition = TopicPartition(topic, number)
                if assignment.is_reassigning:
                    left.append(f"reassignment of {partition}: {assignment}")
                path = paths.state_path(partition)
                if path not in zookeeper.nodes:
                    left.append(f"no state of {partition}")
                    continue
                state = decode_state(partition, zookeeper.content(path))
                if state.leader == NO_LEADER or set(state.isr) != set(assignment.replicas):
                    left.append(f"{partition} {assignment.replicas}: {state}")
                elif not self._follow(partition, assignment.replicas):
                    left.append(f"{partition}: not yet equal")
        return left

    def _follow(self, partition: TopicPartition, replicas: tuple[int, ...]) -> bool:
        brokers = [self.processes[one].broker for one in replicas]
        logs = [one.logs.get(partition) for one in brokers]
        marks = [
            hosted.local.high_watermark
            for one in brokers
            if (hosted := one.hosted(partition)) is not None
        ]
        found = [one for one in logs if one is not None]
        if len(found) < len(logs):
            return False
        first = max(one.log_start_offset for one in found)
        tails = [one.records[first - one.log_start_offset :] for one in found]
        return tails == tails[:1] * len(logs) and marks == [one.log_end_offset for one in found]

    def _compare_logs(self) -> None:
        for topic in self.zookeeper.children(paths.TOPICS):
            known = decode_topic(topic, self.zookeeper.content(paths.topic_path(topic)))
            for number, assignment in known.partitions.items():
                partition = TopicPartition(topic, number)
                self.invariants.look_at_logs(partition, assignment.replicas)
