"""What is decided in parts, with other decisions between them, is what was to be decided."""

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.controlling import node_changes, staging, topic_decisions
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.controlling.outcomes import CreatedTopic
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.deciding.partition_changes import is_live
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.directories import directory_of, is_online
from ottla.metadata.image import MetadataImage
from ottla.metadata.levels import SUPPORTED
from tests.support.active_controllers import BEGUN, CLUSTER_ID, AloneInQuorum

BROKERS = (1, 2, 3)
PLACES = [TopicPartition("t", index) for index in range(5)]
ASSIGNMENTS = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 2], 4: [2, 1]}
FEATURES = {
    name: {"min_version": low, "max_version": high} for name, (low, high) in SUPPORTED.items()
}


MOST_PARTS = 1000
"""All that is under way takes fewer, in parts of one partition each."""


def directories(broker: int) -> tuple[Uuid, Uuid]:
    return Uuid(bytes([9, broker]) * 8), Uuid(bytes([8, broker]) * 8)


class World:
    """Three brokers, and decisions of which each is under way for as long as one likes."""

    def __init__(self) -> None:
        self.quorum = AloneInQuorum(kind=ActiveController)
        self.controller = self.quorum.controller
        self.incarnations = dict.fromkeys(BROKERS, 1)
        self.epochs: dict[int, int] = {}
        self.wanted: dict[int, dict[str, Any]] = {one: {} for one in BROKERS}
        self.under_way: list[Generator[None, None, object]] = []
        for broker in BROKERS:
            self.register(broker)
            self.finish()
            self.beat(broker)
        new = NewTopic(name="t", assignments=ASSIGNMENTS)
        self.begin(self.controller.create_topics([new], validate_only=False))
        self.finish()

    def begin(self, parts: Generator[None, None, object]) -> None:
        self.under_way.append(parts)
        self.go_on(len(self.under_way) - 1)

    def go_on(self, number: int) -> None:
        """The controller's own plans go on too."""
        self.controller.advance(BEGUN)
        if self.under_way:
            parts = self.under_way.pop(number % len(self.under_way))
            try:
                next(parts)
                self.under_way.append(parts)
            except (StopIteration, ApiError):
                return

    def finish(self) -> None:
        for _ in range(MOST_PARTS):
            if not self.under_way and self.controller.deadline_ms > BEGUN.monotonic_ms:
                return
            self.go_on(0)
        raise AssertionError("it does not end")

    # What is decided

    def register(self, broker: int) -> None:
        endpoint = Endpoint(listener="L", host="h", port=9092, security_protocol="PLAINTEXT")
        registration = BrokerRegistration(
            endpoints=(endpoint,),
            features=FEATURES,
            incarnation_id=Uuid(bytes([broker, self.incarnations[broker]]) * 8),
            directories=directories(broker),
        )
        request = RegistrationRequest(broker, CLUSTER_ID, registration)

        def registered() -> Generator[None, None, None]:
            epoch = yield from self.controller.register_broker(request)
            self.epochs[broker] = epoch

        self.begin(registered())

    def beat(self, broker: int, **wanted: Any) -> None:
        if broker not in self.controller.image.brokers:
            return
        self.wanted[broker] = wanted
        self.controller.heartbeat(
            HeartbeatRequest(broker, self.epochs[broker], self.controller.end_offset, **wanted)
        )

    def restart(self, broker: int) -> None:
        self.beat(broker, want_fence=True)
        self.incarnations[broker] += 1
        self.register(broker)

    def place(self, broker: int) -> None:
        topic_id = self.controller.image.topics["t"].topic_id
        placed = [PlacedReplica(directories(broker)[1], topic_id, one.partition) for one in PLACES]
        self.begin(self.controller.assign_replicas_to_dirs(broker, self.epochs[broker], placed))

    def decide(self, kind: int, broker: int) -> None:
        controller = self.controller
        others = tuple(one for one in BROKERS if one != broker)
        match kind:
            case 0:
                self.beat(broker)
            case 1:
                self.beat(broker, want_shut_down=True)
            case 2:
                self.beat(broker, want_fence=True)
            case 3:
                self.beat(broker, offline=directories(broker)[:1])
            case 4:
                self.restart(broker)
            case 5:
                self.begin(controller.elect_leaders(None, is_unclean=False))
            case 6:
                moves = dict.fromkeys(PLACES, others)
                self.begin(controller.alter_reassignments(moves, may_change_count=True))
            case 7:
                self.place(broker)
            case 8:
                self.go_on(broker)
            case 9:
                self.create(broker)
            case 10:
                count = 5 + broker
                for name in ("t", "n"):
                    growth = TopicGrowth(name=name, partition_count=count)
                    self.begin(controller.create_partitions([growth], validate_only=False))
            case 11:
                self.begin(controller.delete_topics(["n"]))

    def create(self, factor: int) -> list[object]:
        """What becomes of a topic of as many replicas, once that is known."""
        made: list[object] = []
        new = NewTopic(name="n", partition_count=6, replication_factor=factor)

        def created() -> Generator[None, None, None]:
            made.extend((yield from self.controller.create_topics([new], validate_only=False)))

        self.begin(created())
        return made

    def check(self) -> None:
        self.finish()
        for broker, wanted in self.wanted.items():
            for _ in range(3):
                self.beat(broker, **wanted)
        self.finish()
        image = self.controller.image
        assert {*PLACES} <= {*every_partition(image)}
        for place in every_partition(image):
            one = image.topics[place.topic].partitions[place.partition]
            able = [
                broker
                for broker in one.isr
                if is_live(image, broker)
                and is_online(image.brokers[broker], directory_of(one, broker))
            ]
            assert one.leader in able or (one.leader == -1 and not able), (place, one)
            assert len(one.isr) == 1 or all(is_live(image, broker) for broker in one.isr)
        assert self.quorum.replayed().topics == image.topics


def every_partition(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(name, index)
        for name, topic in image.topics.items()
        for index in topic.partitions
    ]


@pytest.fixture(autouse=True, scope="module")
def _smallest_parts() -> Generator[None, None, None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in (node_changes, staging, topic_decisions):
            patched.setattr(module, "MOST_AT_ONCE", 1)
        yield


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from(BROKERS)), max_size=12))
def test_no_partition_is_left_to_a_replica_that_cannot_lead(deeds: list[tuple[int, int]]) -> None:
    world = World()
    for kind, broker in deeds:
        world.decide(kind, broker)
    world.check()


def test_a_topic_shows_with_all_its_partitions_or_not_at_all_and_is_one_batch() -> None:
    world = World()
    world.quorum.commit()
    made, again, seen = world.create(2), world.create(3), set[int]()
    while world.under_way:
        topic = world.controller.image.topics.get("n")
        seen.add(0 if topic is None else topic.partition_count)
        world.go_on(0)
    assert seen == {0, 6}
    assert isinstance(made[0], CreatedTopic)
    assert (made[0].partition_count, made[0].replication_factor) == (6, 2)
    assert isinstance(again[0], ApiError)
    assert again[0].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert [len(batch) for batch in world.quorum.commit()] == [7]


def test_a_broker_that_is_fenced_while_a_topic_is_decided_on_leads_none_of_it() -> None:
    world = World()
    made = world.create(3)
    world.go_on(0)
    world.beat(1, want_fence=True)
    world.finish()
    assert isinstance(made[0], CreatedTopic)
    partitions = world.controller.image.topics["n"].partitions.values()
    assert {one.leader for one in partitions} <= {2, 3}
    assert all(1 in one.replicas and 1 not in one.isr for one in partitions)


def test_a_topic_is_made_though_brokers_come_and_go_all_the_time() -> None:
    world = World()
    made = world.create(2)
    for _ in range(MOST_PARTS):
        if made:
            break
        world.beat(3, want_fence=world.controller.image.brokers[3].is_fenced is False)
        world.go_on(0)
    assert isinstance(made[0], CreatedTopic)


def test_a_broker_may_stop_only_when_all_of_its_leaderships_have_moved() -> None:
    world = World()
    controller, told = world.controller, list[bool]()

    def ask() -> bool:
        for other in (2, 3):
            world.beat(other)
        request = HeartbeatRequest(1, world.epochs[1], controller.end_offset, want_shut_down=True)
        return bool(controller.heartbeat(request).should_shut_down)

    while not (told and told[-1]):
        told.append(ask())
        leaders = [one.leader for one in controller.image.topics["t"].partitions.values()]
        assert not told[-1] or 1 not in leaders
    assert len(told) > 2
    assert leaders == [2, 2, 3, 2, 2]


def test_another_leader_goes_on_where_one_has_unfenced_a_broker_and_not_led_all() -> None:
    world = World()
    for broker in BROKERS:
        world.beat(broker, want_fence=True)
        world.finish()
    world.beat(2)  # of two partitions that only it can lead, one part has one
    image = world.controller.image
    assert [one.leader for one in image.topics["t"].partitions.values()].count(2) == 1

    later = world.quorum.elected(image, image.epoch + 1)
    while later.deadline_ms <= BEGUN.monotonic_ms:
        later.advance(BEGUN)

    partitions = later.image.topics["t"].partitions.values()
    able = [one for one in partitions if 2 in one.isr]
    assert len(able) > 1
    assert all(one.leader == 2 for one in able)
