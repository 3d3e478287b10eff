"""Three brokers on disks in memory whose coordinators move, since those who lead them are killed.

A client commits offsets of a group, another ends transactions, one request after the other, while
followers fetch, markers and questions of leaders travel, and brokers are killed and come back in an
order of chance. What was acknowledged is found on whichever broker coordinates: offsets do not go
back, records of committed transactions are read once, those of aborted ones never, and in the end
no transaction is open.
"""

import random
import time
from itertools import count
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.broker.membership.admission_requests import AdmissionRequest
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.admission_channels import errors_of, message_of
from ottla.cluster.marker_channels import _errors, _message
from ottla.codec.schema import Message
from ottla.controller.events import AlteredAnswer
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
)
from ottla.protocol.messages.end_transaction import EndTransactionRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.server.handling import committing
from ottla.storage.log.offsets import Isolation
from ottla.testing import CrashMode
from ottla.zookeeper.controllers import ProducerIdBlock
from ottla.zookeeper.topics import PartitionState
from tests.support.brokers import NOW_MS, id_of
from tests.support.replicated_brokers import (
    ClusterInProcess,
    PartitionOrders,
    Unasked,
    replicas_of,
)

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
STATE = TopicPartition(TRANSACTION_STATE, 0)
BROKERS = (1, 2, 3)
FEW = 5
MANY = 60
"""Of so many seeds eight find the broken rule."""

PATIENCE = 400
"""Steps after which a client takes a request for lost, and asks again."""

SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "min_insync_replicas": "2",
    "transaction_state_log_min_isr": "2",
    "replica_lag_time_max_ms": "100000000",
}
"""Nobody leaves the ISR for being slow: the world's controller takes out who is killed."""


class Blocks(Unasked):
    """Gives each broker other blocks of producer ids, and takes along its markers and questions."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self._world = world
        self._broker_id = broker_id
        self._life = world.lives[broker_id]

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        self._world.next_id += 1000
        start = self._world.next_id
        waiting: Waiting[ProducerIdBlock] = Waiting()
        waiting.result = ProducerIdBlock(broker_id=1, start=start, end=start + 999)
        return waiting

    def send_markers(self, request: MarkerRequest) -> None:  # type: ignore[override]
        self._send(request)

    def ask_for_admission(self, request: AdmissionRequest) -> None:
        self._send(request)

    def _send(self, request: MarkerRequest | AdmissionRequest) -> None:
        self._world.travelling.append((self._broker_id, self._life, request))


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.next_id = 0
        self.lives = dict.fromkeys(BROKERS, 1)
        self.cluster = ClusterInProcess(
            ORDERS, BROKERS, lambda broker_id: Blocks(self, broker_id), **SETTINGS
        )
        self.orders = {ORDERS: self.cluster.orders}
        for number, place in enumerate((OFFSETS, STATE)):
            self.orders[place] = PartitionOrders(place, BROKERS, topic_id=id_of(200 + number))
            self.cluster.topic_ids[place.topic] = self.orders[place].topic_id
        self.isr = {place: set(BROKERS) for place in self.orders}
        self.leader = {place: number + 1 for number, place in enumerate(self.orders)}
        self.answered: set[Waiting[Any]] = set()
        self.travelling: list[tuple[int, int, MarkerRequest | AdmissionRequest]] = []
        """With the broker that sends it, and in which of its lives."""
        self.kills = 0
        self._lead_all()

    def _lead_all(self) -> None:
        for place, orders in self.orders.items():
            orders.now_ms = self.cluster.orders.now_ms
            isr = tuple(sorted(self.isr[place]))
            orders.lead(self.leader[place], self.cluster.brokers, isr)

    # What happens

    def step(self) -> None:
        self.cluster.orders.now_ms += 1
        live = list(self.cluster.brokers)
        match self.chance.randrange(100):
            case number if number < 55:
                self.cluster.follow(self.chance.choice(live))
            case number if number < 80:
                self._work(self.chance.choice(live))
            case number if number < 97:
                self.carry()
            case 97 if len(live) == len(BROKERS):
                self.kill(self.chance.choice(live))
            case 98 if len(live) < len(BROKERS):
                self.restart()
        for broker in self.cluster.brokers:
            self._join_isr(broker)

    def _work(self, broker_id: int) -> None:
        broker = self.cluster.brokers[broker_id]
        self.cluster.orders.now_ms += self.chance.choice((0, 0, 20))
        broker.scheduler.run_due(self.cluster.orders.at)
        broker.appends.write_out()
        self.answered.update(broker.answers.take_answered(self.cluster.orders.now_ms))

    def carry(self) -> None:
        """Takes the next request of a broker to another one, and perhaps its answer back."""
        if not self.travelling:
            return
        sender, life, request = self.travelling.pop(0)
        if isinstance(request, MarkerRequest):
            message, version = _message(request), 1
        else:
            message, version = message_of(request), 5
        answer = self.ask(request.broker, message, version, steps=30)
        if self.lives[sender] != life or sender not in self.cluster.brokers:
            return
        transactions, at = self.cluster.brokers[sender].transactions, self.cluster.orders.at
        if isinstance(request, MarkerRequest):
            errors = None if answer is None else _errors(answer)
            transactions.markers_answered(request.number, errors, at)
        else:
            said = None if answer is None else errors_of(request, answer)
            transactions.admissions.answered(request.number, said, at)

    def _join_isr(self, broker_id: int) -> None:
        """The controller takes whoever has caught up into the ISR."""
        replicas = replicas_of(self.cluster.brokers[broker_id])
        answers = []
        for change in replicas.alter_partitions.next_request():
            place = TopicPartition(change.topic, change.partition)
            orders = self.orders[place]
            is_current = change.leader_epoch == orders.leader_epoch
            if is_current:
                self.isr[place] = set(change.isr)
                orders.partition_epoch += 1
            state = PartitionState(
                leader=self.leader[place],
                leader_epoch=orders.leader_epoch,
                controller_epoch=1,
                isr=change.isr,
            )
            answers.append(
                AlteredAnswer(
                    change=change,
                    error=ErrorCode.NONE if is_current else ErrorCode.FENCED_LEADER_EPOCH,
                    state=state if is_current else None,
                    partition_epoch=orders.partition_epoch,
                )
            )
        if answers:
            replicas.altered(replicas.alter_partitions.attempt, answers, self.cluster.orders.at)

    def kill(self, broker_id: int) -> None:
        """Unless it is the last that has all which is committed."""
        if any(self.isr[place] == {broker_id} for place in self.orders):
            return
        self.kills += 1
        self.lives[broker_id] += 1
        self.cluster.kill(broker_id, self.chance.choice((CrashMode.STRICT, CrashMode.KEEP)))
        for place in self.orders:
            self.isr[place].discard(broker_id)
            if self.leader[place] == broker_id:
                self.leader[place] = self.chance.choice(sorted(self.isr[place]))
        self._lead_all()

    def restart(self) -> None:
        for broker_id in BROKERS:
            if broker_id not in self.cluster.brokers:
                self.lives[broker_id] += 1
                self.cluster.start(broker_id)
        self._lead_all()

    # Clients

    def ask(self, broker_id: int, request: Message, version: int, steps: int = PATIENCE) -> Any:
        """The answer; `None` where none has come."""
        if broker_id not in self.cluster.brokers:
            return None
        asker, life = self.cluster.askers[broker_id], self.lives[broker_id]
        asker.monotonic_ms = self.cluster.orders.now_ms
        later, output = asker.send(request, version)
        while later is not None:
            if not steps or self.lives[broker_id] != life:
                return None
            steps -= 1
            self.step() if steps > 30 else self.quiet_step()
            if later.pending_id in self.answered:
                later, output = asker.go_on(later)
        return asker.decode(request, version, output)

    def quiet_step(self) -> None:
        """Nobody is killed, and no marker begins to travel."""
        self.cluster.orders.now_ms += 1
        broker = self.chance.choice(list(self.cluster.brokers))
        self.cluster.follow(broker)
        self._work(broker)

    def committed_values(self) -> list[str]:
        """As a consumer with read_committed at the leader reads them."""
        log = self.cluster.log(self.leader[ORDERS])
        assert log.last_stable_offset == log.high_watermark, "a transaction is open forever"
        data = log.reader.read(0, 1 << 20, Isolation.LAST_STABLE)
        if data.records is None:
            return []
        aborted = {(one.producer_id, one.first_offset) for one in data.aborted or ()}
        values, dropped = [], set()
        for batch in iter_batches(data.records.read()):
            dropped |= {producer for producer, first in aborted if first == batch.base_offset}
            if batch.is_control:
                dropped.discard(batch.producer_id)
            elif batch.producer_id not in dropped:
                values += [one.value.decode() for one in read_records(batch) if one.value]
        return values


class Committer:
    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged = self.asked = 0

    def commit(self) -> None:
        self.asked = self.acknowledged + 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.asked)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic])
        answer = self.world.ask(self.world.leader[OFFSETS], request, 8)
        if answer is not None and not answer.topics[0].partitions[0].error_code:
            self.acknowledged = self.asked

    def check(self) -> bool:
        """Whether the coordinator has answered; what it knows is what was acknowledged."""
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        request = OffsetFetchRequest(group_id="g", topics=[topic])
        answer = self.world.ask(self.world.leader[OFFSETS], request, 7)
        if answer is None or answer.error_code:
            return False
        found = answer.topics[0].partitions[0]
        if found.error_code:
            return False
        known = max(found.committed_offset, 0)
        assert self.acknowledged <= known <= max(self.asked, self.acknowledged)
        return True


class Transactor:
    """`adds`: it names its partitions before it writes; otherwise the leader does (KIP-890)."""

    def __init__(self, world: World, *, adds: bool) -> None:
        self.world = world
        self.adds = adds
        self.claim: tuple[int, int] | None = None
        self.sequence = self.number = 0
        self.committed: list[str] = []
        self.unknown: list[str] = []

    def _ask(self, request: Message, version: int) -> Any:
        return self.world.ask(self.world.leader[STATE], request, version)

    def run(self) -> None:
        """One transaction, to its end or to where it fails: then another epoch aborts it."""
        self.number += 1
        value = f"v{self.number}"
        if self.claim is None and not self._init():
            return
        assert self.claim is not None
        is_aborted = self.world.chance.random() < 0.2
        if not ((not self.adds or self._add()) and self._produce(value)):
            self.claim = None
            return
        producer_id, epoch = self.claim
        request = EndTransactionRequest(
            transactional_id="tx",
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=not is_aborted,
        )
        answer = self._ask(request, 3 if self.adds else 5)
        if answer is None or answer.error_code:
            self.claim = None
            if not is_aborted:
                self.unknown.append(value)
            return
        if not self.adds:
            self.claim, self.sequence = (answer.producer_id, answer.producer_epoch), 0
        if not is_aborted:
            self.committed.append(value)

    def _init(self) -> bool:
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        answer = self._ask(request, 4)
        if answer is None or answer.error_code:
            return False
        self.claim, self.sequence = (answer.producer_id, answer.producer_epoch), 0
        return True

    def _add(self) -> bool:
        assert self.claim is not None
        request = AddPartitionsToTransactionRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=self.claim[0],
            v3_and_below_producer_epoch=self.claim[1],
            v3_and_below_topics=[AddPartitionsTopic(name="orders", partitions=[0])],
        )
        answer = self._ask(request, 3)
        if answer is None:
            return False
        ((result,),) = [one.results_by_partition for one in answer.results_by_topic_v3_and_below]
        return not result.partition_error_code

    def _produce(self, value: str) -> bool:
        assert self.claim is not None
        builder = RecordBatchBuilder(
            producer_id=self.claim[0],
            producer_epoch=self.claim[1],
            base_sequence=self.sequence,
            is_transactional=True,
        )
        builder.append(None, value.encode(), NOW_MS)
        data = PartitionProduceData(index=0, records=builder.build())
        request = ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=100_000,
            topic_data=[TopicProduceData(name="orders", partition_data=[data])],
        )
        answer = self.world.ask(self.world.leader[ORDERS], request, 9 if self.adds else 12)
        if answer is None or answer.responses[0].partition_responses[0].error_code:
            return False
        self.sequence += 1
        return True


def run(seed: int) -> World:
    world = World(seed)
    committer, transactor = Committer(world), Transactor(world, adds=seed % 2 == 0)
    for _ in range(60):
        for _ in range(world.chance.randrange(12)):
            world.step()
        deed = world.chance.choice((committer.commit, committer.check, transactor.run))
        deed()
    world.restart()
    for _ in range(3000):
        world.quiet_step()
        world.carry()
        for broker in world.cluster.brokers:
            world._join_isr(broker)
        if committer.check() and transactor._init():
            break
    else:
        raise AssertionError("the coordinators do not come back")
    for _ in range(300):
        world.quiet_step()
        world.carry()
    values = world.committed_values()
    assert len(set(values)) == len(values), "read twice"
    assert set(transactor.committed) <= set(values)
    assert set(values) <= {*transactor.committed, *transactor.unknown}
    assert values == sorted(values, key=lambda one: int(one[1:]))
    return world


@pytest.mark.slow
def test_what_was_acknowledged_outlives_the_coordinators(crash_seconds: float) -> None:
    began_s = time.monotonic()
    kills = 0
    for seed in count():
        kills += run(seed).kills
        if seed >= FEW and time.monotonic() - began_s > crash_seconds:
            break
    assert kills > FEW


@pytest.mark.slow
def test_answers_that_wait_for_no_replica_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that answers before its records are committed is forgotten with them."""
    monkeypatch.setattr(committing, "committed", lambda _, handle: handle)
    with pytest.raises(AssertionError):
        run_many()


def run_many() -> None:
    for seed in range(MANY):
        run(seed)
