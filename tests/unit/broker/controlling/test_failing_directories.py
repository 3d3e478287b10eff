"""Whatever comes first, no partition is left to a replica in a log directory that has failed."""

from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.deciding.partition_changes import is_live
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import PartitionImage
from ottla.metadata.levels import SUPPORTED
from tests.support.active_controllers import CLUSTER_ID, AloneInQuorum

OTHER, ME = 1, 2
FEATURES = {
    name: {"min_version": low, "max_version": high} for name, (low, high) in SUPPORTED.items()
}
DIRECTORIES = {OTHER: (Uuid(b"o" * 16),), ME: tuple(Uuid(one * 16) for one in (b"a", b"b", b"c"))}
REPLICAS = ([ME], [ME, OTHER], [OTHER, ME], [ME, OTHER])


class World:
    """Broker 2 has three directories, of which two fail; its replicas are in turn in each.

    What it has to tell of them arrives in any order, and at the end at the latest.
    """

    def __init__(self) -> None:
        self.quorum = AloneInQuorum()
        self.controller: Any = self.quorum.controller
        self.epoch: dict[int, int] = {}
        self.incarnation = {OTHER: 1, ME: 1}
        self.failed: list[Uuid] = []
        self.places: dict[TopicPartition, Uuid] = {}
        self.untold: list[TopicPartition] = []
        for broker in (OTHER, ME):
            self.register(broker)
            self.beat(broker)
        self.create()

    # What happens

    def register(self, broker: int) -> None:
        endpoint = Endpoint(listener="L", host="h", port=9092, security_protocol="PLAINTEXT")
        registration = BrokerRegistration(
            endpoints=(endpoint,),
            features=FEATURES,
            incarnation_id=Uuid(bytes([broker, self.incarnation[broker]]) * 8),
            directories=tuple(one for one in DIRECTORIES[broker] if one not in self.failed),
        )
        request = RegistrationRequest(broker, CLUSTER_ID, registration)
        self.epoch[broker] = self.controller.register_broker(request)

    def beat(self, broker: int, *, want_fence: bool = False) -> None:
        offline = tuple(self.failed) if broker == ME else ()
        offset, epoch = self.controller.end_offset, self.epoch[broker]
        request = HeartbeatRequest(broker, epoch, offset, want_fence=want_fence, offline=offline)
        self.controller.heartbeat(request)

    def create(self) -> None:
        online = [one for one in DIRECTORIES[ME] if one not in self.failed]
        for number, replicas in enumerate(REPLICAS):
            name = f"t{len(self.places)}"
            new = NewTopic(name=name, assignments={0: replicas})
            self.controller.create_topics([new], validate_only=False)
            if name not in self.controller.image.topics:
                continue  # no broker is live of those that it names
            place = TopicPartition(name, 0)
            self.places[place] = online[number % len(online)]
            self.untold.append(place)

    def fail(self) -> None:
        if len(self.failed) < 2:
            self.failed.append(DIRECTORIES[ME][len(self.failed)])

    def tell(self, number: int = 0) -> None:
        if not self.untold:
            return
        place = self.untold.pop(number % len(self.untold))
        topic_id = self.controller.image.topics[place.topic].topic_id
        placed = [PlacedReplica(self.places[place], topic_id, place.partition)]
        codes = self.controller.assign_replicas_to_dirs(ME, self.epoch[ME], placed)
        assert list(codes) == [ErrorCode.NONE]

    def move(self) -> None:
        """A person copies a replica from a directory that has failed."""
        for place, directory in self.places.items():
            if directory in self.failed:
                self.places[place] = DIRECTORIES[ME][2]
                self.untold.append(place)
                return

    def sync(self) -> None:
        """Leaders have heard all followers that are live and have a log."""
        for place in self.places:
            one, topic = self.partition(place), self.controller.image.topics[place.topic]
            isr = tuple(each for each in one.replicas if self.has_log(each, place))
            change = AlteredIsr(
                topic_id=topic.topic_id,
                partition=place.partition,
                leader_epoch=one.leader_epoch,
                partition_epoch=one.partition_epoch,
                isr=isr,
            )
            if one.leader in isr:
                self.controller.alter_partition(one.leader, self.epoch[one.leader], [change])

    def restart(self) -> None:
        """What has failed is still so."""
        self.beat(ME, want_fence=True)
        self.beat(ME, want_fence=True)  # that before may have told of a directory
        self.incarnation[ME] += 1
        self.register(ME)

    def go(self) -> None:
        self.beat(OTHER, want_fence=True)

    def change_controller(self) -> None:
        self.quorum.commit()
        image = self.controller.image
        self.controller = self.quorum.elected(image, image.epoch + 1)

    @property
    def deeds(self) -> list[Callable[[], None]]:
        return [
            self.fail,
            lambda: self.beat(ME),
            self.tell,
            lambda: self.tell(-1),
            lambda: self.register(ME),
            self.change_controller,
            self.sync,
            self.create,
            self.restart,
            self.go,
            lambda: self.beat(OTHER),
            self.move,
        ]

    # What is to be

    def partition(self, place: TopicPartition) -> PartitionImage:
        found = self.controller.image.partition(place)
        assert found is not None
        return found

    def has_log(self, broker: int, place: TopicPartition) -> bool:
        is_lost = broker == ME and self.places[place] in self.failed
        return not is_lost and is_live(self.controller.image, broker)

    def settle(self) -> None:
        for _ in range(2):
            for broker in (OTHER, ME):
                self.beat(broker)
        while self.untold:
            self.tell()

    def check(self) -> None:
        for place in self.places:
            one = self.partition(place)
            able = [each for each in one.isr if self.has_log(each, place)]
            assert one.leader in able or (one.leader == -1 and not able), (place, one)


FAIL, BEAT, TELL, TELL_LAST, REGISTER, CHANGE, SYNC, CREATE, RESTART, GO, COME, MOVE = range(12)


@given(st.lists(st.integers(0, 11), max_size=14))
@example([FAIL, BEAT, TELL, TELL_LAST])
@example([TELL, TELL, FAIL, REGISTER])
@example([FAIL, TELL, BEAT, MOVE, MOVE, MOVE])
def test_a_replica_that_is_able_leads_when_all_was_told(deeds: list[int]) -> None:
    world = World()
    for deed in deeds:
        world.deeds[deed]()
    world.settle()
    world.check()
