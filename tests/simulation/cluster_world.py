"""Brokers, a controller among them, and a ZooKeeper, from a seed; time is simulated.

Sessions expire, requests are lost, late and doubled, processes are killed and come back, while
topics are created, grow, move and are deleted, and a client writes with acks=all. Asserted at every
step: leader epochs never go back, an epoch has one leader, and who begins to lead has every record
that was acknowledged, at its offset. In the end everything that was asked for is done.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.controller.channels import Channels
from ottla.controller.events import (
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
from ottla.controller.placement import Start, place
from ottla.controller.requests import LeaderAndIsr, Outgoing, StopReplica
from ottla.registries import paths
from ottla.registries.brokers import BrokerRegistration, encode_broker
from ottla.registries.topics import NO_LEADER, decode_state, decode_topic
from tests.simulation.cluster_broker import ModelBroker
from tests.support.model_zookeeper import ModelZooKeeper, Session

SESSION_MS = 600
TICK_MS = 25
CHAOS_MS = 9_000
DEADLINE_MS = 30_000
TIMEOUT_MS = 90


class Process:
    """A broker's process: the model of its logs, a controller's machine, a session."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.broker = ModelBroker(broker_id)
        self.is_up = False
        self.life = 0
        self.session: Session | None = None
        self.asked: AlterPartition | None = None
        self.attempt: object = None

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.broker.restart()
        self.machine = ControllerMachine(ControllerOptions(broker_id=self.id))
        self.channels = Channels()
        self.in_flight: dict[int, Outgoing] = {}
        self.is_asking = False
        self.session = None
        self.pending: dict[object, Callable[[Answer], None]] = {}
        self.asked = None
        self.contact_ms = self.world.now_ms
        self.later(0, self.tick)

    def kill(self) -> None:
        self.is_up = False
        self.life += 1

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Unless the process is killed before."""
        life = self.life

        def guarded() -> None:
            if life == self.life:
                action()

        self.world.at(delay_ms, guarded)

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
            self.broker.stop_leading()
            self.broker.epoch = -1
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
        self.broker.epoch = result.czxid
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
            if session is None or session is not self.session or not session.is_alive:
                return  # the session's end is noticed at a tick
            if self.id in self.world.cut_off:
                self.later(TICK_MS, carry_out)
                return
            results = self.world.zookeeper.execute(session, batch)
            if self.world.chance.random() < 0.02:
                self.world.counts["asked twice"] += 1
                results = self.world.zookeeper.execute(session, batch)
            self.later(self.world.delay(), lambda: self._go_on(session, results))

        self.later(self.world.delay(), carry_out)

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
            errors = to.broker.apply(request, self.world.now_ms)
            self.world.look_at(to)
            if errors is not None:
                to.broker.controller = self.id
            self.world.send(to, self, lambda: self._answered(request, errors))

        def again() -> None:
            if self.in_flight.get(request.broker) is request:
                del self.in_flight[request.broker]

        self.world.send(self, to, arrived)
        self.later(TIMEOUT_MS, again)

    def _answered(
        self, request: Outgoing, errors: "dict[TopicPartition, ErrorCode] | None"
    ) -> None:
        if self.channels.next_for(request.broker) is not request:
            return
        self.channels.answered(request)
        self.in_flight.pop(request.broker, None)
        if errors and isinstance(request.order, LeaderAndIsr):
            self.receive(LeaderAndIsrAnswered(broker=request.broker, errors=errors))
        elif errors and isinstance(request.order, StopReplica):
            self.receive(DeletionAnswered(broker=request.broker, errors=errors))
        self._send()

    # Replication

    def _replicate(self) -> None:
        world = self.world
        for leader, fetch in self.broker.fetches():
            to = world.processes[leader]

            def arrived(to: "Process" = to, fetch=fetch) -> None:  # type: ignore[no-untyped-def]
                fetched = to.broker.serve(fetch, world.now_ms)
                world.look_at(to)
                if fetched is not None:
                    world.send(to, self, lambda: self.broker.take(fetched))

            world.send(self, to, arrived)
        wanted = None if self.asked else self.broker.wanted_isr(world.now_ms)
        if wanted is not None:
            self.asked = wanted
            self._ask_controller(wanted)

    def _ask_controller(self, wanted: AlterPartition) -> None:
        """Again until there is an answer that is not NOT_CONTROLLER."""
        if self.asked is not wanted:
            return
        to = self.world.processes.get(self.broker.controller)
        if to is not None:
            request = AlterPartition(
                pending_id=next(self.world.numbers),
                broker=self.id,
                broker_epoch=self.broker.epoch,
                changes=wanted.changes,
            )
            # Only the last one's answer says what holds after all of them.
            self.attempt = request.pending_id

            def answered(answer: Answer) -> None:
                self.world.send(to, self, lambda: self._altered(wanted, request, answer))

            self.world.send(self, to, lambda: to.serve(request, answered))
        self.later(TIMEOUT_MS, lambda: self._ask_controller(wanted))

    def _altered(self, wanted: AlterPartition, request: AlterPartition, answer: Answer) -> None:
        is_last = self.asked is wanted and self.attempt == request.pending_id
        if is_last and answer.error is ErrorCode.NONE:
            if any(one.error is ErrorCode.NOT_CONTROLLER for one in answer.altered):
                return
            self.asked = None
            self.broker.altered(answer.altered, wanted)
            self.world.look_at(self)


class World:
    def __init__(self, seed: int, broker_count: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 0.0
        self.counts: Counter[str] = Counter()
        self.numbers = count()
        self.zookeeper = ModelZooKeeper(on_write=self._written)
        self.cut_off: set[int] = set()
        self.blocked: set[tuple[int, int]] = set()
        self.acknowledged: dict[TopicPartition, dict[int, str]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        size = broker_count or self.chance.choice((3, 4, 5))
        self.processes = {number: Process(self, number) for number in range(size)}
        self.topics: list[str] = []
        self.is_calm = False

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
        match chance.randrange(6):
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
            case _:
                pass
        self.at(chance.random() * 500, self._chaos)

    def _shut_down(self, process: Process) -> None:
        """Asks the controller first, and goes whether or not it answers."""
        to = self.processes.get(process.broker.controller)
        self.counts["shutdowns"] += 1
        if to is not None:
            request = ControlledShutdown(pending_id=next(self.numbers), broker=process.id)
            self.send(process, to, lambda: to.serve(request, lambda answer: None))
        process.later(150, lambda: (process.kill(), self.at(400, process.start))[0])

    def _calm_down(self) -> None:
        self.is_calm = True
        self.cut_off.clear()
        self.blocked.clear()
        for process in self.processes.values():
            if not process.is_up:
                process.start()

    # What is asked of the controller

    def _administer(self) -> None:
        if self.is_calm:
            return
        active = [one for one in self.processes.values() if one.is_up and one.machine.is_active]
        if active:
            request = self._request()
            if isinstance(request, RebalanceDue):
                active[0].receive(request)
            else:
                self.counts[type(request).__name__] += 1
                active[0].serve(request, lambda answer: None)
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
        return place(brokers, size, 3, start)

    # A client that writes with acks=all

    def _write(self) -> None:
        if not self.is_calm:
            for process in self.processes.values():
                for partition, one in process.broker.replicas.items():
                    if process.is_up and one.leader == process.id and self.chance.random() < 0.3:
                        process.broker.produce(partition, f"v{next(self.numbers)}")
                self.look_at(process)
            self.at(30, self._write)

    def look_at(self, process: Process) -> None:
        """What a broker has acknowledged, and what it begins to lead."""
        for partition, one in process.broker.began_to_lead:
            key = (partition, one.leader_epoch)
            assert self._leaders.setdefault(key, process.id) == process.id, f"{key} led by two"
            newest = self._epoch(partition)
            if newest is None or one.leader_epoch < newest:
                continue  # it hears late of what is over, and nobody follows it
            for offset, value in self.acknowledged.get(partition, {}).items():
                found = one.log[offset - 1][1] if offset <= len(one.log) else None
                assert found == value, f"{process.id} leads {partition} without {offset}: {value}"
        process.broker.began_to_lead.clear()
        for partition, value in process.broker.committed:
            log = process.broker.replicas[partition].log
            offset = next(at for at, entry in enumerate(log, 1) if entry[1] == value)
            taken = self.acknowledged.setdefault(partition, {})
            assert taken.setdefault(offset, value) == value, f"{partition} {offset} twice"
            self.counts["acknowledged"] += 1
        process.broker.committed.clear()

    def _epoch(self, partition: TopicPartition) -> int | None:
        """`None` after the topic's deletion."""
        node = self.zookeeper.nodes.get(paths.state_path(partition))
        return None if node is None else decode_state(partition, node.content).leader_epoch

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
        logs = [self.processes[one].broker.replicas.get(partition) for one in replicas]
        return all(
            one is not None and logs[0] is not None and one.log == logs[0].log for one in logs
        )

    def _compare_logs(self) -> None:
        for topic in self.zookeeper.children(paths.TOPICS):
            known = decode_topic(topic, self.zookeeper.content(paths.topic_path(topic)))
            for number, assignment in known.partitions.items():
                partition = TopicPartition(topic, number)
                for broker in assignment.replicas:
                    log = self.processes[broker].broker.replicas[partition].log
                    for offset, value in self.acknowledged.get(partition, {}).items():
                        assert log[offset - 1][1] == value
