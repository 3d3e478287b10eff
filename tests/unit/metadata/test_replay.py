"""Replay goes on from an image, costs what changes, and names what has changed."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.schema import Message
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import RECOVERING, MetadataImage, PartitionImage
from ottla.metadata.image_changes import image_changes
from ottla.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from ottla.metadata.replay import MetadataReplay

NAMES = ("a", "b", "c")


def uuid(number: int) -> Uuid:
    return Uuid(bytes(15) + bytes([number]))


def partition_record(topic_id: Uuid, index: int, **values: Any) -> PartitionRecord:
    known: dict[str, Any] = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0}
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, partition_epoch=0, **known | values
    )


class Log:
    """Makes records of numbers, each possible after those before it."""

    def __init__(self) -> None:
        self.topics: dict[str, Uuid] = {}
        self.partitions: dict[Uuid, set[int]] = {}
        self.created = 0

    def record(self, kind: int, one: int, other: int) -> Message:
        name = NAMES[one]
        topic_id = self.topics.get(name)
        index = other % 5
        if kind < 12 and topic_id is None:
            self.created += 1
            topic_id = self.topics[name] = uuid(self.created)
            self.partitions[topic_id] = set()
            return TopicRecord(name=name, topic_id=topic_id)
        if kind < 8 and topic_id is not None:
            if index not in self.partitions[topic_id] or kind < 2:
                self.partitions[topic_id].add(index)
                removing = [2] if kind else []
                return partition_record(topic_id, index, removing_replicas=removing)
            return self._change(topic_id, index, kind)
        if kind < 9 and topic_id is not None:
            del self.topics[name]
            return RemoveTopicRecord(topic_id=topic_id)
        if kind < 11:
            return ClearElrRecord(topic_name=name if kind == 9 else "")
        return self._other(kind - 11, name, one, other)

    def _change(self, topic_id: Uuid, index: int, kind: int) -> Message:
        change = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
        if kind == 2:
            change.leader, change.isr = 2, [2]
        elif kind == 3:
            change.eligible_leader_replicas, change.last_known_elr = [1], [2]
        elif kind == 4:
            change.replicas, change.adding_replicas = [3, 1, 2], [3]
        elif kind == 5:
            change.leader_recovery_state = RECOVERING
        else:
            change.directories = [uuid(8), uuid(9)]
        return change

    def _other(self, kind: int, name: str, one: int, other: int) -> Message:
        value = None if other == 0 else str(other)
        who = [QuotaEntity(entity_type="user", entity_name=name)]
        kinds = (ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP)
        return (
            ConfigRecord(resource_type=kinds[one], resource_name=name, name="x", value=value),
            ConfigRecord(
                resource_type=ResourceKind.TOPIC, resource_name=name, name="y", value=value
            ),
            ClientQuotaRecord(entity=who, key="k", value=float(other), remove=not other),
            FeatureLevelRecord(name=name, feature_level=other),
            ProducerIdsRecord(next_producer_id=1000 * other),
            UserScramCredentialRecord(name=name, mechanism=1, salt=b"s", iterations=other),
            RemoveUserScramCredentialRecord(name=name, mechanism=1),
            AccessControlEntryRecord(id=uuid(other), resource_type=2, principal=f"User:{name}"),
            RemoveAccessControlEntryRecord(id=uuid(other)),
            DelegationTokenRecord(owner="User:a", token_id=name, expiration_timestamp=other),
            RemoveDelegationTokenRecord(token_id=name),
            RegisterBrokerRecord(broker_id=one, broker_epoch=other),
            UnregisterBrokerRecord(broker_id=one),
            FenceBrokerRecord(id=one),
            UnfenceBrokerRecord(id=one),
            BrokerRegistrationChangeRecord(broker_id=one, log_dirs=[uuid(other)]),
            RegisterControllerRecord(controller_id=one, zk_migration_ready=other > 2),
            UnregisterControllerRecord(controller_id=one),
        )[kind]


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    numbers = st.tuples(st.integers(0, 28), st.integers(0, 2), st.integers(0, 5))
    log, records, rules = Log(), [], set()
    for numbers_of_one in draw(st.lists(numbers, max_size=60)):
        record = log.record(*numbers_of_one)
        if isinstance(record, ClearElrRecord) and record.topic_name not in {*log.topics, ""}:
            continue
        if isinstance(record, AccessControlEntryRecord):
            if record.id in rules:
                continue  # an id is used once
            rules.add(record.id)
        records.append(record)
    return records


def replayed(records: list[Message]) -> MetadataImage:
    replay = MetadataReplay()
    for record in records:
        replay.replay(record)
    replay.end_offset = len(records)
    return replay.image()


@given(log=logs(), portions=st.lists(st.tuples(st.integers(1, 8), st.sampled_from("itsn"))))
def test_any_portions_make_the_same_image_and_their_changes_name_all_that_differs(
    log: list[Message], portions: list[tuple[int, str]]
) -> None:
    """After each portion: an image, its changes taken, a replay seeded anew, or nothing."""
    replay, told, done = MetadataReplay(), MetadataImage(), 0
    images: list[tuple[MetadataImage, int]] = []
    for size, then in [*portions, (len(log), "t")]:
        for record in log[done : done + size]:
            replay.replay(record)
        done = min(done + size, len(log))
        replay.end_offset = done
        if then == "n":
            continue
        image = replay.image()
        images.append((image, done))
        if then != "i":
            assert_named(told, image, replay.take_changes())
            assert replay.take_changes() == ImageChanges()
            told = image
        if then == "s":
            replay = MetadataReplay.of(image)
    for image, count in images:
        assert image == replayed(log[:count])


def assert_named(old: MetadataImage, new: MetadataImage, taken: ImageChanges) -> None:
    exact = ImageChanges.between(old, new)
    for one in fields(ImageChanges):
        needed, told = getattr(exact, one.name), getattr(taken, one.name)
        if isinstance(needed, bool):
            assert told >= needed, one.name
        elif one.name == "removed_topics":
            assert needed.items() <= told.items()
        else:
            assert needed <= told, one.name
    assert all(new.partition(place) is not None for place in taken.partitions)
    size_changes = [one for one in taken.partitions if old.partition(one) is None]
    if exact.removed_topics or size_changes:
        assert new.revision > old.revision


@given(log=logs(), middle=st.integers(0, 60))
def test_the_changes_of_two_images_are_the_records_that_make_one_of_the_other(
    log: list[Message], middle: int
) -> None:
    level = [FeatureLevelRecord(name="metadata.version", feature_level=33)]
    old, new = replayed([*level, *log[:middle]]), replayed([*level, *log])
    replay = MetadataReplay.of(old)
    for record, _ in image_changes(old, new):
        replay.replay(record)
    expected = replace(new, removed=frozenset(), end_offset=0, next_producer_id=0)
    made = replace(replay.image(), removed=frozenset(), end_offset=0, next_producer_id=0)
    assert made == expected


def test_changes_in_a_row_are_one_change() -> None:
    records: list[Message] = [
        TopicRecord(name="a", topic_id=uuid(1)),
        partition_record(uuid(1), 0),
        RemoveTopicRecord(topic_id=uuid(1)),
        TopicRecord(name="a", topic_id=uuid(2)),
        partition_record(uuid(2), 1),
        RegisterBrokerRecord(broker_id=1),
    ]
    replay, changes = MetadataReplay(), ImageChanges()
    for record in records:
        replay.replay(record)
        changes = changes.then(replay.take_changes())
    assert changes == ImageChanges(
        partitions={TopicPartition("a", 1)}, removed_topics={"a": uuid(1)}, brokers={1}
    )


def test_an_image_shares_what_has_not_changed() -> None:
    replay = MetadataReplay()
    for number, name in enumerate(NAMES):
        replay.replay(TopicRecord(name=name, topic_id=uuid(number)))
        replay.replay(partition_record(uuid(number), 0))
    before = replay.image()
    replay.replay(PartitionChangeRecord(topic_id=uuid(0), partition_id=0, leader=2))
    after = replay.image()
    assert after.topics["b"] is before.topics["b"]
    assert after.acls is before.acls
    assert replay.image().topics is after.topics
    assert (before.topics["a"].partitions[0].leader, after.topics["a"].partitions[0].leader) == (
        1,
        2,
    )


FULL = PartitionImage(
    replicas=(1, 2, 3, 4),
    isr=(1,),
    leader=1,
    leader_epoch=5,
    partition_epoch=9,
    directories=tuple(map(uuid, (1, 2, 3, 4))),
    removing=(2,),
    adding=(3,),
    elr=(4,),
    last_known_elr=(2,),
    recovery_state=RECOVERING,
)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (16, replace(FULL, directories=(uuid(0),) * 4, elr=(), last_known_elr=())),
        (22, replace(FULL, elr=(), last_known_elr=())),
        (23, FULL),
    ],
)
def test_a_snapshot_has_of_a_partition_what_its_level_has(
    level: int, expected: PartitionImage
) -> None:
    topics = replayed([TopicRecord(name="a", topic_id=uuid(1))]).topics
    topics = {"a": topics["a"]._replace(partitions={0: FULL})}
    image = MetadataImage(topics=topics, features={"metadata.version": level})
    records = [one for one, _ in image_changes(MetadataImage(), image)]
    assert replayed(records).topics["a"].partitions[0] == expected
    versions = {type(one): version for one, version in image_changes(MetadataImage(), image)}
    assert versions[PartitionRecord] == (level >= 17) + (level >= 23)


def test_eligible_leaders_are_cleared_where_there_are_any() -> None:
    records: list[Message] = []
    for number, name in enumerate(("a", "b")):
        records.append(TopicRecord(name=name, topic_id=uuid(number)))
        records += [
            partition_record(uuid(number), 0),
            partition_record(uuid(number), 1, isr=[1], eligible_leader_replicas=[2]),
        ]
    image = replayed([*records, ClearElrRecord(topic_name="a")])
    found = [(one.elr, one.partition_epoch) for one in image.topics["a"].partitions.values()]
    assert found == [((), 0), ((), 1)]
    assert image.topics["b"].partitions[1].elr == (2,)
    assert not replayed([*records, ClearElrRecord()]).topics["b"].partitions[1].elr


def test_a_controller_that_has_gone_is_named_from_the_level_that_has_a_record_for_it() -> None:
    old = replayed([RegisterControllerRecord(controller_id=9), RegisterBrokerRecord(broker_id=1)])
    for level, kinds in ((32, [UnregisterBrokerRecord]), (33, [None, UnregisterBrokerRecord])):
        features = {"metadata.version": level}
        gone = [
            type(one)
            for one, _ in image_changes(
                replace(old, features=features), MetadataImage(features=features)
            )
        ]
        assert gone == [kind or UnregisterControllerRecord for kind in kinds]
