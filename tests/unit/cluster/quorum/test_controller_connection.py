"""What a node asks of the active controller, of which it knows only where it may be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from threading import RLock
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.cluster.quorum.broker_lifecycle import BrokerState
from ottla.cluster.quorum.controller_connection import ConnectionParts, ControllerConnection
from ottla.cluster.quorum.controller_lifecycle import ControllerOptions
from ottla.cluster.quorum.directory_reports import Replica
from ottla.codec.schema import Message
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import RegisterControllerRecord
from ottla.protocol.messages import response_class
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.messages.alter_partition import (
    AlteredPartitionResult,
    AlteredTopicResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.brokers import at, disk, id_of
from tests.support.hostile_requests import Filler, Told
from tests.support.patience import wait_until
from tests.support.replicated_brokers import (
    TOPIC_ID,
    PartitionOrders,
    open_member,
    replicas_of,
)
from tests.unit.cluster.quorum.test_broker_lifecycle import OPTIONS

ME, PEER = OPTIONS.broker_id, 8
ACTIVE, OTHER = 9093, 9094
"""The ports of the active controller and of one that is not active."""

CONTROLLER = ControllerOptions(
    node_id=ME,
    incarnation_id=id_of(70),
    endpoints=(Endpoint(listener="C", host="h", port=1, security_protocol="PLAINTEXT"),),
    features={"metadata.version": (7, 30)},
)


@dataclass
class Controllers:
    """Two controllers, of which one is active, and what they were asked."""

    asked: list[Message] = field(default_factory=list)
    lead_at: int = ACTIVE
    is_caught_up: bool = True
    may_stop: bool = True
    refusal: ErrorCode = ErrorCode.NONE

    def connect(self, endpoint: Endpoint, client_id: str) -> "Connection":
        assert (endpoint.listener, client_id) == ("CONTROLLER", str(ME))
        if self.lead_at == 0:
            raise UserError("nobody listens there")
        return Connection(self, endpoint.port)

    def of(self, kind: type[Message]) -> list[Any]:
        return [one for one in self.asked if isinstance(one, kind)]

    def answer(self, request: Any) -> Message:
        match request:
            case BrokerRegistrationRequest():
                return BrokerRegistrationResponse(error_code=self.refusal, broker_epoch=500)
            case BrokerHeartbeatRequest():
                return BrokerHeartbeatResponse(
                    error_code=0,
                    is_caught_up=self.is_caught_up,
                    is_fenced=request.want_fence,
                    should_shut_down=request.want_shut_down and self.may_stop,
                )
            case ControllerRegistrationRequest():
                return ControllerRegistrationResponse(error_code=0, error_message=None)
            case AllocateProducerIdsRequest():
                return AllocateProducerIdsResponse(
                    error_code=0, producer_id_start=3000, producer_id_len=1000
                )
            case CreateTopicsRequest():
                results = [
                    CreatableTopicResult(
                        name=one.name,
                        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if "!" in one.name else 0,
                        error_message=None,
                    )
                    for one in request.topics
                ]
                return CreateTopicsResponse(topics=results)
            case AssignReplicasToDirsRequest():
                return reported(request)
            case AlterPartitionRequest():
                return altered(request)
        raise AssertionError(f"nobody asks the controller for {request}")


@dataclass
class Liars(Controllers):
    """What they answer first has the right shape, and the worst in it."""

    lies_left: int = 40
    chance: Random = field(default_factory=lambda: Random(7))

    def answer(self, request: Any) -> Message:
        if self.lies_left == 0:
            return super().answer(request)
        self.lies_left -= 1
        kind = response_class(request.API_KEY)
        lie: Message = Filler(Told(), kind.VERSIONS.last, self.chance).fill(kind)
        return lie


def reported(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    directories = [
        AssignedDirectoryResult(
            id=directory.id,
            topics=[
                AssignedTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignedPartitionResult(partition_index=one.partition_index, error_code=0)
                        for one in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    return AssignReplicasToDirsResponse(error_code=0, directories=directories)


def altered(request: AlterPartitionRequest) -> AlterPartitionResponse:
    (topic,) = request.topics
    (partition,) = topic.partitions
    result = AlteredPartitionResult(
        partition_index=partition.partition_index,
        error_code=0,
        leader_id=ME,
        leader_epoch=partition.leader_epoch,
        isr=[one.broker_id for one in partition.new_isr_with_epochs],
        leader_recovery_state=0,
        partition_epoch=partition.partition_epoch + 1,
    )
    topic_result = AlteredTopicResult(topic_id=topic.topic_id, partitions=[result])
    return AlterPartitionResponse(error_code=0, topics=[topic_result])


@dataclass
class Connection:
    controllers: Controllers
    port: int

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        return 3 if newest is None else newest

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        if self.port != self.controllers.lead_at:
            return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
        self.controllers.asked.append(request)
        return self.controllers.answer(request)

    def close(self) -> None:
        pass


@dataclass
class Places:
    """Replicas in directories that the metadata does not name."""

    waiting: list[dict[Replica, Uuid]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def take_places(self) -> dict[Replica, Uuid]:
        return self.waiting.pop()


@dataclass
class Node:
    """A node's connection to the controllers, and what it was told."""

    connection: ControllerConnection
    controllers: Controllers
    said: list[Any]
    place: list[int]
    image: list[MetadataImage]
    places: "Places"
    broker: Any

    def wait_for(self, kind: type[Message], count: int = 1) -> list[Any]:
        wait_until(lambda: len(self.controllers.of(kind)) >= count, f"no {kind.__name__}")
        return self.controllers.of(kind)

    def run(self) -> None:
        self.connection.ready()
        wait_until(lambda: self.connection.state is BrokerState.RUNNING)


NewNode = Callable[..., Node]


@contextmanager
def node(*, refusal: ErrorCode = ErrorCode.NONE, **changed: Any) -> Iterator[Node]:
    broker = open_member(ME, disk("/d"), "/d")
    replicas, controllers = replicas_of(broker), Controllers(refusal=refusal)
    said: list[Any] = []
    place = [ACTIVE]
    image = [MetadataImage(end_offset=501, features={"metadata.version": 20})]
    lock, places = RLock(), Places()

    def registered(epoch: int) -> None:
        with lock:
            replicas.registered(epoch)
        said.append(epoch)

    parts = ConnectionParts(
        node_id=ME,
        broker=replace(OPTIONS, heartbeat_interval_ms=20),
        controller=None,
        active=lambda: Endpoint(
            listener="CONTROLLER", host="h", port=place[0], security_protocol="PLAINTEXT"
        ),
        image=lambda: image[0],
        offline=lambda: (id_of(71),) if any(one.is_offline for one in broker.directories) else (),
        cordoned=lambda: (),
        places=places,
        replicas=replicas,
        lock=lock,
        wake=lambda: None,
        connect=controllers.connect,
        quick_connect=controllers.connect,
        clock=SystemClock(),
        new_topic=lambda name: CreatableTopic(name=name, num_partitions=3, replication_factor=2),
        complain=said.append,
        registered=registered,
        changed=said.append,
        failed=said.append,
    )
    connection = ControllerConnection(replace(parts, **changed))
    connection.start()
    try:
        yield Node(connection, controllers, said, place, image, places, broker)
    finally:
        connection.stop()
        broker.close()


def test_a_broker_registers_and_is_unfenced_when_it_is_ready() -> None:
    with node() as one:
        wait_until(lambda: one.connection.state is BrokerState.RECOVERY)
        assert one.wait_for(BrokerHeartbeatRequest)[0].current_metadata_offset == 500
        one.run()
        assert one.said == [500, BrokerState.RECOVERY, BrokerState.RUNNING]
        assert replicas_of(one.broker).manager.broker_epoch == 500
        (lost,) = one.broker.directories
        lost.health.fail(OSError("the disk is gone"))
        wait_until(
            lambda: one.controllers.of(BrokerHeartbeatRequest)[-1].offline_log_dirs == [id_of(71)]
        )


@pytest.mark.slow
def test_no_answer_of_a_controller_ends_what_a_node_asks_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    liars, blocks = Liars(), list[Any]()
    with node(connect=liars.connect, quick_connect=liars.connect) as one:
        one.connection.allocate_producer_ids(blocks.append)
        one.connection.create_topics(["t"])
        one.places.waiting.append({(id_of(5), 0): id_of(6)})
        one.run()
        wait_until(lambda: liars.lies_left == 0 and blocks)
        one.connection.allocate_producer_ids(blocks.append)
        wait_until(lambda: len(blocks) == 2)
        assert all(0 <= one.start <= one.end for one in blocks)
    assert not [one for one in caplog.records if one.exc_info]


def test_a_broker_registers_again_when_the_cluster_begins_to_have_directories() -> None:
    with node() as one:
        one.run()
        kind = BrokerRegistrationRequest
        assert len(one.controllers.of(kind)) == 1
        known = BrokerRegistration(endpoints=(), epoch=500)
        one.image[0] = replace(one.image[0], brokers={ME: known})
        wait_until(lambda: len(one.controllers.of(kind)) == 2)
        first, second = one.controllers.of(kind)
        assert (second.incarnation_id, second.log_dirs) == (first.incarnation_id, first.log_dirs)


def test_directories_that_are_cordoned_while_the_broker_runs_are_named() -> None:
    cordoned: list[bytes] = []
    with node(cordoned=lambda: tuple(cordoned)) as one:
        one.run()
        assert one.controllers.of(BrokerHeartbeatRequest)[-1].cordoned_log_dirs is None
        for wanted in ([id_of(72)], [id_of(71), id_of(72)], []):
            cordoned[:] = wanted
            wait_until(
                lambda wanted=wanted: (
                    one.controllers.of(BrokerHeartbeatRequest)[-1].cordoned_log_dirs == wanted
                )
            )


def test_a_broker_finds_the_next_controller_and_serves_on_without_any() -> None:
    with node() as one:
        one.run()
        one.controllers.lead_at = OTHER
        one.connection.leader_changed()
        one.controllers.asked.clear()
        one.place[0] = OTHER
        one.connection.leader_changed()
        assert one.wait_for(BrokerHeartbeatRequest)[0].broker_epoch == 500
        one.controllers.lead_at = 0
        one.connection.leader_changed()
        assert one.connection.state is BrokerState.RUNNING
        assert not replicas_of(one.broker).manager.is_fenced
        assert not one.controllers.of(BrokerRegistrationRequest)


def test_a_broker_that_is_refused_says_why_in_one_line() -> None:
    options = replace(OPTIONS, registration_timeout_ms=1)
    with node(refusal=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker=options) as one:
        wait_until(lambda: one.said)
        (line,) = one.said
        assert line.startswith("node 7 could not register as a broker within initial.broker")


def test_leaders_ask_for_isrs_with_the_epochs_of_their_brokers() -> None:
    with node() as one:
        one.run()
        place = TopicPartition("t", 0)
        replicas = replicas_of(one.broker)
        PartitionOrders(place, (ME, PEER)).lead(ME, {ME: one.broker})
        wait_until(lambda: _advanced(one) and one.controllers.of(AlterPartitionRequest))
        request = one.controllers.of(AlterPartitionRequest)[0]
        assert (request.broker_id, request.broker_epoch) == (ME, 500)
        (topic,) = request.topics
        assert topic.topic_id == TOPIC_ID
        assert [
            (state.broker_id, state.broker_epoch)
            for state in topic.partitions[0].new_isr_with_epochs
        ] == [(ME, 500)]
        leading = replicas.manager.leading(place)
        assert leading is not None
        wait_until(lambda: leading.isr.committed == {ME})


def _advanced(one: Node) -> bool:
    """Has the broker look for followers that are behind, a while later each time."""
    replicas = replicas_of(one.broker)
    replicas.advance(at(100_000 + int(replicas.now_ms)))
    return True


def test_topics_producer_ids_and_places_of_replicas_are_asked_for_until_answered() -> None:
    with node() as one:
        blocks: list[Any] = []
        one.controllers.lead_at = 0
        one.connection.create_topics(["t", "bad!"])
        one.connection.allocate_producer_ids(blocks.append)
        one.places.waiting += [{(id_of(5), number): id_of(71)} for number in range(2300)]
        one.controllers.lead_at = ACTIVE
        wait_until(lambda: blocks)
        (block,) = blocks
        assert (block.broker_id, block.start, block.end) == (ME, 3000, 3999)
        (topics,) = one.controllers.of(CreateTopicsRequest)
        assert [(new.name, new.num_partitions) for new in topics.topics] == [("t", 3), ("bad!", 3)]
        assert any("topic bad! cannot be created" in str(line) for line in one.said)
        reports = one.wait_for(AssignReplicasToDirsRequest, 2)
        sizes = [len(report.directories[0].topics[0].partitions) for report in reports]
        assert sizes == [2250, 50]
        assert reports[0].broker_epoch == 500


@pytest.mark.slow
def test_a_broker_that_leaves_waits_until_its_leaderships_have_moved() -> None:
    with node() as one:
        one.run()
        assert one.connection.leave(60_000)
        assert one.connection.state is BrokerState.SHUTTING_DOWN
        assert one.controllers.of(BrokerHeartbeatRequest)[-1].want_shut_down
    with node() as one:
        one.run()
        one.controllers.may_stop = False
        assert not one.connection.leave(50)
    with node(broker=replace(OPTIONS, session_timeout_ms=50)) as one:
        one.run()
        one.controllers.lead_at = 0
        one.connection.leader_changed()
        assert not one.connection.leave(10**9), "no controller is left to ask"


@pytest.mark.parametrize("broker", [None, OPTIONS])
def test_a_controller_registers_until_the_metadata_has_it(broker: Any) -> None:
    with node(broker=broker, controller=CONTROLLER) as one:
        (request, *_) = one.wait_for(ControllerRegistrationRequest)
        assert (request.controller_id, request.incarnation_id) == (ME, id_of(70))
        assert [(place.name, place.port) for place in request.listeners] == [("C", 1)]
        known = RegisterControllerRecord(
            controller_id=ME,
            incarnation_id=id_of(70),
            zk_migration_ready=False,
            end_points=[],
            features=[],
        )
        one.image[0] = replace(one.image[0], controllers={ME: known})
        one.controllers.asked.clear()
        one.connection.leader_changed()
        assert not one.controllers.of(ControllerRegistrationRequest)
