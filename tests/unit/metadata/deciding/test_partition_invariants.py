"""Whatever happens to brokers, and is asked for, partitions stay in sound states."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import TopicPartition
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.balancing import off_balance
from ottla.metadata.deciding.elections import elect_leaders, to_elect_for, unclean_elections
from ottla.metadata.deciding.isr import alter_partition
from ottla.metadata.deciding.partition_changes import (
    arriving,
    directories_failed,
    is_live,
    leaving,
    stopped_uncleanly,
)
from ottla.metadata.deciding.reassignments import alter_reassignments
from ottla.metadata.deciding.replica_directories import PlacedReplica, assign_replicas_to_dirs
from ottla.metadata.directories import directory_of, is_online
from ottla.metadata.image import (
    FIRST_WITH_DIRECTORIES,
    METADATA_VERSION,
    RECOVERED,
    MetadataImage,
    PartitionImage,
)
from ottla.metadata.levels import ELR_VERSION
from ottla.metadata.record_versions import VersionedRecord
from tests.support.kraft_images import then
from tests.support.partition_images import (
    TOPIC,
    TOPIC_ID,
    broker,
    cluster,
    directory,
    partition,
    partitions_of,
)

BROKERS = range(1, 5)
Records = list[VersionedRecord]
PLACES = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


class World:
    """A cluster, of which things are asked by numbers."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def do(self, records: Records, joined: tuple[int, ...] = (), **registration: object) -> None:
        """Applies records, and perhaps another registration of a broker, with invariants; brokers
        have `joined` an ISR.
        """
        before = self.image
        self.image = then(before, records)
        for name, values in registration.items():
            number = int(name[1:])
            known = replace(self.image.brokers[number], **values)  # type: ignore[arg-type]
            self.image = replace(self.image, brokers={**self.image.brokers, number: known})
        for old, new in zip(partitions_of(before), partitions_of(self.image), strict=True):
            check_step(old, new, joined)
            check_state(self.image, new)

    @property
    def has_directories(self) -> bool:
        return self.image.level >= FIRST_WITH_DIRECTORIES

    def go(self, number: int, *_: int) -> None:
        state = {"is_fenced": True}
        self.do(leaving(self.image, number), **{f"_{number}": state})

    def shut_down(self, number: int, *_: int) -> None:
        if not self.image.brokers[number].is_fenced:
            state = {"is_shutting_down": True}
            self.do(leaving(self.image, number), **{f"_{number}": state})

    def crash(self, number: int, *_: int) -> None:
        """It is back before anybody has noticed, and is registered anew."""
        state = {"is_fenced": True, "is_shutting_down": False}
        self.do(stopped_uncleanly(self.image, number), **{f"_{number}": state})

    def come(self, number: int, *_: int) -> None:
        if self.image.brokers[number].is_fenced:
            state = {"is_fenced": False, "is_shutting_down": False}
            self.do(arriving(self.image, number), **{f"_{number}": state})

    def lose_directory(self, number: int, *_: int) -> None:
        gone = directory(number)
        if self.has_directories and gone in self.image.brokers[number].directories:
            state = {"directories": (directory(number, 1),)}
            self.do(directories_failed(self.image, number, {gone}), **{f"_{number}": state})

    def place(self, number: int, index: int, choice: int) -> None:
        if not self.has_directories:
            return
        placed = [PlacedReplica(directory(number, choice % 3), TOPIC_ID, index)]
        self.do(assign_replicas_to_dirs(self.image, number, broker(number).epoch, placed)[0])

    def sync(self, number: int, index: int, choice: int) -> None:
        """A broker asks for an ISR of itself and any others."""
        one = partitions_of(self.image)[index]
        isr = tuple(each for each in one.replicas if each == number or choice >> each & 1)
        change = AlteredIsr(
            topic_id=TOPIC_ID,
            partition=index,
            leader_epoch=one.leader_epoch,
            partition_epoch=one.partition_epoch,
            isr=isr,
        )
        self.do(alter_partition(self.image, number, broker(number).epoch, [change])[0], isr)

    def move(self, number: int, index: int, choice: int) -> None:
        others = [one for one in BROKERS if one != number and choice >> one & 1]
        wanted = {PLACES[index]: (number, *others)}
        self.do(alter_reassignments(self.image, wanted)[0])

    def cancel(self, _: int, index: int, __: int) -> None:
        self.do(alter_reassignments(self.image, {PLACES[index]: None})[0])

    def elect(self, number: int, *_: int) -> None:
        records, _outcomes = elect_leaders(
            self.image, [*to_elect_for(self.image, is_unclean=number == 1)], is_unclean=number == 1
        )
        self.do(records)

    def elect_what_is_due(self, *_: int) -> None:
        self.do(unclean_elections(self.image, 9))

    def balance(self, *_: int) -> None:
        self.do(elect_leaders(self.image, off_balance(self.image, 0), is_unclean=False)[0])

    @property
    def deeds(self) -> list[Callable[[int, int, int], None]]:
        twice = [self.sync, self.come, self.go, self.move] * 2
        return [
            *twice,
            self.crash,
            self.shut_down,
            self.lose_directory,
            self.place,
            self.cancel,
            self.elect,
            self.elect_what_is_due,
            self.balance,
        ]


def check_step(old: PartitionImage, new: PartitionImage, joined: tuple[int, ...]) -> None:
    assert new.leader_epoch >= old.leader_epoch
    assert new.partition_epoch >= old.partition_epoch
    if new.leader != old.leader:
        assert new.leader_epoch > old.leader_epoch
    if replace(new, partition_epoch=old.partition_epoch) != old:
        assert new.partition_epoch > old.partition_epoch
    if not set(old.replicas) <= set(new.replicas):
        assert new.leader_epoch > old.leader_epoch, "a removed replica must be fenced"
    if new.leader not in (old.leader, -1) and new.recovery_state == old.recovery_state == RECOVERED:
        may_have_all = {*old.isr, *old.elr, *joined}
        is_cancelled = bool(old.adding) and not new.adding
        assert new.leader in may_have_all or is_cancelled


def check_state(image: MetadataImage, one: PartitionImage) -> None:
    replicas, isr, elr = set(one.replicas), set(one.isr), set(one.elr)
    for brokers in (one.replicas, one.isr, one.elr, one.adding, one.removing):
        assert len(set(brokers)) == len(brokers)
    assert isr | elr | {*one.adding, *one.removing} <= replicas
    assert not isr & elr
    assert isr or image.features.get(ELR_VERSION)
    assert not elr or image.features.get(ELR_VERSION)
    assert len(one.directories) == len(one.replicas)
    if one.leader != -1:
        assert one.leader in isr
        assert is_live(image, one.leader)
        assert is_online(image.brokers[one.leader], directory_of(one, one.leader))
        assert not one.last_known_elr
    if one.adding or one.removing:
        assert not replicas - {*one.removing} <= isr, "a move that is done must have ended"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    level, elr = draw(st.sampled_from([(11, 0), (16, 0), (21, 0), (23, 0), (23, 1), (33, 1)]))
    features = {METADATA_VERSION: level} | ({ELR_VERSION: 1} if elr else {})
    configs = {
        "min.insync.replicas": draw(st.sampled_from("123")),
        "unclean.leader.election.enable": draw(st.sampled_from(["true", "false"])),
    }
    image = cluster(
        partition((1, 2, 3)), partition((4, 1)), configs=configs, features=features, count=4
    )
    return World(image)


steps = st.lists(
    st.tuples(st.integers(0, 15), st.sampled_from(BROKERS), st.integers(0, 1), st.integers(0, 31)),
    max_size=40,
)


@given(world=worlds(), steps=steps)
def test_partitions_stay_sound(world: World, steps: list[tuple[int, int, int, int]]) -> None:
    for deed, *arguments in steps:
        world.deeds[deed](*arguments)


@given(world=worlds(), steps=steps, target=st.permutations(BROKERS), count=st.integers(1, 4))
def test_a_move_ends_with_its_target(
    world: World, steps: list[tuple[int, int, int, int]], target: list[int], count: int
) -> None:
    """Once all brokers are back, and in sync."""
    for deed, *arguments in steps:
        world.deeds[deed](*arguments)
    for number in BROKERS:
        world.go(number)
        world.come(number)
    wanted = tuple(target[:count])
    world.do(alter_reassignments(world.image, {PLACES[0]: wanted})[0])
    world.elect(1)
    for _ in range(2):
        leader = partitions_of(world.image)[0].leader
        if leader == -1:
            return  # its last replica in sync has lost its directory
        world.sync(leader, 0, 31)
    one = partitions_of(world.image)[0]
    if one.recovery_state == RECOVERED:
        assert (one.replicas, one.adding, one.removing) == (wanted, (), ())
        assert set(one.isr) == {*wanted}
