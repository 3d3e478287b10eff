"""Brokers of one cluster in one process: orders of a controller, and followers that fetch."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.membership.membership import AnyMembership
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.replication.effects import BeforeEffect
from ottla.broker.replication.fetches import (
    AskEpochEnd,
    AskLocalStart,
    AskOffsets,
    EpochEnded,
    Fetch,
    Fetched,
    FollowerRequest,
    LeaderAnswer,
    LocalStart,
    Offsets,
)
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.config.broker import BrokerConfig, broker_config
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import (
    LEADER_DURING_DELETE,
    LeaderAndIsr,
    Order,
    PartitionMetadata,
    PartitionOrder,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.image import PartitionImage
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import iter_batches
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.testing import CrashMode
from ottla.zookeeper.controllers import ProducerIdBlock
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, TOPIC_DEFAULTS, at, batch, disk, id_of

CONTROLLER = Sender(controller=1, controller_epoch=1)
TOPIC_ID = id_of(77)
_numbers = itertools.count(5000)


def open_member(
    broker_id: int,
    file_system: FileSystem,
    *paths: str,
    membership: AnyMembership | None = None,
    before_effect: BeforeEffect | None = None,
    open_remote_storage: Callable[[BrokerConfig, FileSystem], RemoteStorage] | None = None,
    **settings: str,
) -> Broker:
    """A broker of a cluster; settings are Kafka's names with `_` for `.`."""
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(_numbers)),
        random_below=lambda _: 0,
        node_id=broker_id,
        cluster_id="a-cluster-for-tests-01",
        membership=membership or Unasked(),
        before_effect=before_effect,
        open_remote_storage=open_remote_storage,
    )
    values = {"log.index.size.max.bytes": str(TOPIC_DEFAULTS.segment_index_bytes)}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    broker = assemble(paths or ("/d",), file_system, broker_config(values), options)
    replicas_of(broker).registered(broker_id * 10)
    return broker


def replicas_of(broker: Broker) -> Replicas:
    assert isinstance(broker.replicas, Replicas)
    return broker.replicas


@dataclass(slots=True)
class PartitionOrders:
    """What a controller says of one partition, and in which epochs."""

    place: TopicPartition
    replicas: tuple[int, ...]
    topic_id: Uuid = TOPIC_ID
    leader_epoch: int = -1
    partition_epoch: int = 0
    now_ms: float = 0.0
    racks: dict[int, str] = field(default_factory=dict)

    def lead(
        self, leader: int, brokers: dict[int, Broker], isr: tuple[int, ...] | None = None
    ) -> dict[int, Applied]:
        """Has all brokers know of another leader, in the next epoch."""
        self.leader_epoch += 1
        self.partition_epoch += 1
        state = PartitionState(
            leader=leader,
            leader_epoch=self.leader_epoch,
            controller_epoch=1,
            isr=self.replicas if isr is None else isr,
        )
        order = PartitionOrder(
            state=state,
            partition_epoch=self.partition_epoch,
            assignment=ReplicaAssignment(self.replicas),
            is_new=self.leader_epoch == 0,
        )
        orders = LeaderAndIsr(
            orders={self.place: order},
            topic_ids={self.place.topic: self.topic_id},
            live_leaders={},
        )
        image = PartitionImage(
            replicas=self.replicas,
            isr=state.isr,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        known = PartitionMetadata(image=image, controller_epoch=state.controller_epoch)
        update = UpdateMetadata(
            partitions={self.place: known},
            topic_ids={self.place.topic: self.topic_id},
            brokers=self._live(brokers),
        )
        self._send(update, brokers)
        return self._send(orders, {one: brokers[one] for one in brokers if one in self.replicas})

    def announce(self, brokers: dict[int, Broker]) -> None:
        """Says which brokers are up, and nothing else."""
        update = UpdateMetadata(partitions={}, topic_ids={}, brokers=self._live(brokers))
        self._send(update, brokers)

    def _live(self, brokers: dict[int, Broker]) -> dict[int, BrokerRegistration]:
        return {
            one: BrokerRegistration(endpoints=(endpoint_of(one),), rack=self.racks.get(one))
            for one in brokers
        }

    def stop(self, brokers: dict[int, Broker], *, delete: bool) -> dict[int, Applied]:
        stops = {self.place: StopOrder(leader_epoch=self.leader_epoch, delete=delete)}
        return self._send(StopReplica(orders=stops), brokers)

    def delete(self, brokers: dict[int, Broker]) -> None:
        """Has all brokers know that the partition goes, and then delete it."""
        image = PartitionImage(
            replicas=self.replicas,
            isr=self.replicas,
            leader=LEADER_DURING_DELETE,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        known = PartitionMetadata(image=image, controller_epoch=1)
        update = UpdateMetadata(
            partitions={self.place: known}, topic_ids={}, brokers=self._live(brokers)
        )
        self._send(update, brokers)
        self.stop(brokers, delete=True)

    def _send(self, order: Order, brokers: dict[int, Broker]) -> dict[int, Applied]:
        moment, applied = self.at, {}
        for one, broker in brokers.items():
            applied[one] = replicas_of(broker).apply(order, CONTROLLER, moment)
            replicas_of(broker).save_stopped()
        return applied

    @property
    def at(self) -> Timestamps:
        return at(self.now_ms)

    def partition(self, broker: Broker) -> Partition:
        return broker.topics.partition(*self.place)


def endpoint_of(broker: int) -> Endpoint:
    return Endpoint(
        listener="PLAINTEXT",
        host=f"broker-{broker}",
        port=9092,
        security_protocol="PLAINTEXT",
    )


def refused(applied: dict[int, Applied]) -> dict[int, list[ErrorCode]]:
    """Which brokers refused what."""
    errors = {
        broker: [one for one in (each.error, *each.errors.values()) if one is not ErrorCode.NONE]
        for broker, each in applied.items()
    }
    return {broker: some for broker, some in errors.items() if some}


class ClusterInProcess:
    """Brokers that ask each other by the bytes of their requests, and a controller by hand."""

    def __init__(
        self,
        place: TopicPartition,
        replicas: tuple[int, ...],
        membership: Callable[[int], AnyMembership] | None = None,
        **settings: str,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self.orders = PartitionOrders(place, replicas)
        self.disks = {one: disk("/d") for one in replicas}
        self.brokers: dict[int, Broker] = {}
        self.askers: dict[int, Asker] = {}
        self.topic_ids = {place.topic: self.orders.topic_id}
        self._max_size = 1 << 20
        for one in replicas:
            self.start(one)

    def start(self, broker_id: int) -> None:
        membership = None if self._membership is None else self._membership(broker_id)
        broker = open_member(
            broker_id, self.disks[broker_id], membership=membership, **self._settings
        )
        self.brokers[broker_id] = broker
        self.askers[broker_id] = Asker(broker)

    def configure(self, broker_id: int, name: str, value: str) -> None:
        """Gives the topic a setting of its own."""
        change = ConfigChange(name=name, value=value)
        admin = self.brokers[broker_id].admin
        admin.alter_topic(self.orders.place.topic, Alteration(changes=[change]))

    def kill(self, broker_id: int, mode: CrashMode = CrashMode.STRICT) -> None:
        """Its process and what it had not synced are gone."""
        self.brokers.pop(broker_id)
        self.askers.pop(broker_id)
        self.disks[broker_id] = self.disks[broker_id].crash(mode)

    def lead(self, leader: int, isr: tuple[int, ...] | None = None) -> None:
        assert refused(self.orders.lead(leader, self.brokers, isr)) == {}

    def log(self, broker_id: int) -> PartitionLog:
        return self.orders.partition(self.brokers[broker_id]).log

    def records(self, broker_id: int) -> bytes:
        """All bytes below the high watermark."""
        log, found = self.log(broker_id), b""
        offset = log.log_start_offset
        while offset < log.high_watermark:
            data = log.reader.read(offset, 1 << 20, Isolation.HIGH_WATERMARK)
            assert data.records is not None
            found += data.records.read()
            offset = list(iter_batches(found))[-1].last_offset + 1
        return found

    # Clients

    def produce(
        self,
        leader: int,
        *values: bytes,
        acks: int = -1,
        timeout_ms: int = 1000,
        producer_id: int = -1,
        version: int = 9,
    ) -> "Produced":
        records = batch(*values, producer_id=producer_id)
        data = PartitionProduceData(index=self.orders.place.partition, records=records)
        topic = TopicProduceData(
            name=self.orders.place.topic, topic_id=self.orders.topic_id, partition_data=[data]
        )
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        return Produced(self, leader, request, version)

    def delete_records(self, leader: int, *, before: int, timeout_ms: int = 1000) -> "Deleted":
        place = self.orders.place
        wanted = DeleteRecordsPartition(partition_index=place.partition, offset=before)
        topic = DeleteRecordsTopic(name=place.topic, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        return Deleted(self, leader, request, 2)

    def fetch(self, broker_id: int, offset: int, **fields: Any) -> PartitionData:
        """As a consumer that does not wait; `version`, `rack_id`, `isolation_level`."""
        version = fields.pop("version", 12)
        response = self.fetch_response(broker_id, offset, version, **fields)
        found: PartitionData = response.responses[0].partitions[0]
        return found

    def fetch_response(
        self, broker_id: int, offset: int, version: int, **fields: Any
    ) -> FetchResponse:
        epoch = fields.pop("current_leader_epoch", -1)
        place = self.orders.place
        wanted = FetchPartition(
            partition=place.partition,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=epoch,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchTopic(topic=place.topic, topic_id=self.orders.topic_id, partitions=[wanted])
            ],
            **fields,
        )
        response: FetchResponse = self.ask(broker_id, request, version)
        return response

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        asker = self.askers[broker_id]
        asker.monotonic_ms = self.orders.now_ms
        return asker.ask(request, version)

    def let_pass(self, ms: float) -> None:
        self.orders.now_ms += ms
        for broker in self.brokers.values():
            broker.scheduler.run_due(self.orders.at)

    # Followers

    def replicate(self, rounds: int = 6) -> None:
        """All followers ask their leaders so often, and take what they are answered."""
        for _ in range(rounds):
            for broker_id in self.brokers:
                self.follow(broker_id)

    def follow(self, broker_id: int, *, max_size: int = 1 << 20) -> None:
        self._max_size = max_size
        replicas = replicas_of(self.brokers[broker_id])
        for leader, request in replicas.requests(self.orders.at):
            if leader in self.brokers:
                replicas.take(self._answer(leader, request), self.orders.at)

    def _answer(self, leader: int, request: FollowerRequest) -> LeaderAnswer:
        match request:
            case Fetch():
                return self._fetched(leader, request)
            case AskEpochEnd():
                return self.epoch_end(leader, request)
            case AskOffsets():
                return self._offsets(leader, request)
            case AskLocalStart():
                return self._local_start(leader, request)

    def _fetched(self, leader: int, asked: Fetch) -> Fetched:
        wanted = FetchPartition(
            partition=asked.partition.partition,
            current_leader_epoch=asked.leader_epoch,
            fetch_offset=asked.fetch_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
            partition_max_bytes=self._max_size,
        )
        state = ReplicaState(replica_id=asked.follower, replica_epoch=asked.broker_epoch)
        request = FetchRequest(
            replica_state=state,
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchTopic(topic_id=self.topic_ids[asked.partition.topic], partitions=[wanted])
            ],
        )
        answer = self.ask(leader, request, 17).responses[0].partitions[0]
        diverging = answer.diverging_epoch
        return Fetched(
            partition=asked.partition,
            leader_epoch=asked.leader_epoch,
            fetch_offset=asked.fetch_offset,
            error=ErrorCode(answer.error_code),
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
            diverging=diverging and EpochEnd(diverging.epoch, diverging.end_offset),
            records=answer.records,
        )

    def epoch_end(self, leader: int, asked: AskEpochEnd) -> EpochEnded:
        wanted = OffsetForLeaderPartition(
            partition=asked.partition.partition,
            current_leader_epoch=asked.leader_epoch,
            leader_epoch=asked.epoch,
        )
        topic = OffsetForLeaderTopic(topic=asked.partition.topic, partitions=[wanted])
        request = OffsetForLeaderEpochRequest(replica_id=1, topics=[topic])
        answer = self.ask(leader, request, 3).topics[0].partitions[0]
        end = EpochEnd(answer.leader_epoch, answer.end_offset)
        return EpochEnded(
            partition=asked.partition,
            leader_epoch=asked.leader_epoch,
            epoch=asked.epoch,
            error=ErrorCode(answer.error_code),
            end=None if answer.end_offset < 0 else end,
        )

    def _offsets(self, leader: int, asked: AskOffsets) -> Offsets:
        first, end = (self.list_offset(leader, one, asked.leader_epoch, 1) for one in (-2, -1))
        return Offsets(
            partition=asked.partition,
            leader_epoch=asked.leader_epoch,
            error=ErrorCode(first.error_code or end.error_code),
            log_start_offset=first.offset,
            log_end_offset=end.offset,
        )

    def _local_start(self, leader: int, asked: AskLocalStart) -> LocalStart:
        local = self.list_offset(leader, -4, asked.leader_epoch, 1, version=8)
        start, error = asked.log_start_offset, local.error_code
        if start < 0:
            first = self.list_offset(leader, -2, asked.leader_epoch, 1, version=8)
            start, error = first.offset, error or first.error_code
        tier_end = None
        if asked.with_tier_end:
            last = self.list_offset(leader, -5, asked.leader_epoch, 1, version=9)
            tier_end = EpochEnd(last.leader_epoch, last.offset + 1) if last.offset >= 0 else None
        return LocalStart(
            partition=asked.partition,
            leader_epoch=asked.leader_epoch,
            error=ErrorCode(error),
            log_start_offset=start,
            offset=local.offset,
            epoch=local.leader_epoch,
            tier_end=tier_end,
        )

    def list_offset(
        self,
        broker_id: int,
        timestamp: int,
        leader_epoch: int = -1,
        replica_id: int = -1,
        version: int = 7,
    ) -> ListOffsetsPartitionResponse:
        wanted = ListOffsetsPartition(
            partition_index=self.orders.place.partition,
            current_leader_epoch=leader_epoch,
            timestamp=timestamp,
        )
        topic = ListOffsetsTopic(name=self.orders.place.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=replica_id, topics=[topic])
        found: ListOffsetsPartitionResponse
        found = self.ask(broker_id, request, version).topics[0].partitions[0]
        return found

    # The ISR

    def answer_isr_change(self, leader: int, error: ErrorCode = ErrorCode.NONE) -> tuple[int, ...]:
        """Has the controller do what a leader asks for, or refuse it; the ISR that it asked for."""
        replicas = replicas_of(self.brokers[leader])
        (change,) = replicas.alter_partitions.next_request()
        self.orders.partition_epoch += error is ErrorCode.NONE
        state = PartitionState(
            leader=leader,
            leader_epoch=self.orders.leader_epoch,
            controller_epoch=1,
            isr=change.isr,
        )
        answer = AlteredAnswer(
            change=change,
            error=error,
            state=None if error else state,
            partition_epoch=self.orders.partition_epoch,
        )
        replicas.altered(replicas.alter_partitions.attempt, [answer], self.orders.at)
        return change.isr


class Unasked:
    """The membership of a broker whose orders come by hand: all that is asked of it are ids."""

    is_controller = False
    has_answers = False

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("the controller and the registries are asked nothing here")

    ask = run = create_topics = _refuse
    change_settings = change_acls = change_token = send_markers = _refuse
    ask_share_coordinator = _refuse

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        waiting: Waiting[ProducerIdBlock] = Waiting()
        waiting.result = ProducerIdBlock(broker_id=1, start=0, end=999)
        return waiting

    def take_answered(self) -> list[Waiting[Any]]:
        return []


class Asked:
    """A request that may have to wait for other replicas, and its answer when it has come."""

    def __init__(
        self, cluster: ClusterInProcess, leader: int, request: Message, version: int
    ) -> None:
        self._request, self._version = request, version
        self._asker = cluster.askers[leader]
        self._asker.monotonic_ms = cluster.orders.now_ms
        self._now = cluster.orders
        self._response: Any = None
        self._later, output = self._asker.send(request, version)
        if self._later is None and output:
            self._response = self._asker.decode(request, version, output)

    @property
    def response(self) -> Any:
        """`None` while it waits."""
        later = self._later
        if later is not None:
            answered = self._asker.broker.answers.take_answered(self._now.now_ms)
            if later.pending_id in answered:
                self._later = None
                self._response = self._asker.finish(later, self._request, self._version)
        return self._response


class Produced(Asked):
    @property
    def answer(self) -> PartitionProduceResponse | None:
        """`None` while it waits, and with acks=0."""
        response = self.response
        return None if response is None else response.responses[0].partition_responses[0]

    @property
    def error(self) -> ErrorCode | None:
        answer = self.answer
        return None if answer is None else ErrorCode(answer.error_code)


class Deleted(Asked):
    @property
    def error(self) -> ErrorCode | None:
        """`None` while it waits."""
        result = self._result
        return None if result is None else ErrorCode(result.error_code)

    @property
    def low_watermark(self) -> int:
        assert self._result is not None
        return self._result.low_watermark

    @property
    def _result(self) -> DeleteRecordsPartitionResult | None:
        response = self.response
        return None if response is None else response.topics[0].partitions[0]
