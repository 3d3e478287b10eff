"""Topics of a KRaft cluster: created, extended, deleted."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.deciding.creation import create_topic, delete_topic, grow_topic
from ottla.metadata.deciding.topics import Defaults, NewTopic, TopicGrowth
from ottla.metadata.directories import UNASSIGNED
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tests.support.kraft_images import then
from tests.support.partition_images import (
    TOPIC,
    broker,
    cluster,
    directory,
    partition,
    partitions_of,
    with_brokers,
)

ID = Uuid(b"n" * 16)


def created(image: MetadataImage, **asked: object) -> MetadataImage:
    new = NewTopic(name="new", **asked)  # type: ignore[arg-type]
    return then(image, create_topic(image, new, ID, Defaults(1, 1), lambda: 0).records())


def refused(image: MetadataImage, **asked: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        created(image, **asked)
    return caught.value


def test_a_topic_is_spread_over_the_brokers_and_their_racks() -> None:
    image = cluster()
    racks = {f"_{one}": broker(one, rack="ab"[one % 2]) for one in range(1, 5)}
    topic = created(
        with_brokers(image, **racks),
        partition_count=4,
        replication_factor=2,
        overrides={"retention.ms": "5"},
    ).topics["new"]
    assert (topic.topic_id, topic.configs) == (ID, {"retention.ms": "5"})
    assert {one.leader for one in topic.partitions.values()} == {1, 2, 3, 4}
    for one in topic.partitions.values():
        first, second = one.replicas
        assert (first + second) % 2 == 1
        assert (one.isr, one.leader) == (one.replicas, first)
        assert (one.leader_epoch, one.partition_epoch) == (0, 0)
        assert one.directories == tuple(map(directory, one.replicas))


def test_settings_come_between_the_topic_and_its_partitions() -> None:
    new = NewTopic(name="new", overrides={"retention.ms": "5"})
    records = create_topic(cluster(), new, ID, Defaults(1, 1), lambda: 0).records()
    assert [type(one) for one, _ in records] == [TopicRecord, ConfigRecord, PartitionRecord]
    assert [version for _, version in records] == [0, 0, 1]


def test_brokers_that_are_down_get_replicas_only_where_others_are_too_few() -> None:
    image = cluster(fenced={2, 3}, count=3)
    image = with_brokers(image, _4=broker(4, is_shutting_down=True), _5=broker(5))
    for factor in (1, 2):
        made = created(image, partition_count=6, replication_factor=factor).topics["new"]
        used = {broker for one in made.partitions.values() for broker in one.replicas}
        assert used == {1, 5}
    made = created(image, partition_count=6, replication_factor=4).topics["new"]
    for one in made.partitions.values():
        assert len(set(one.replicas)) == 4
        assert set(one.isr) == {1, 5}
        assert one.leader == one.replicas[0]
    assert len({one.replicas[2:] for one in made.partitions.values()}) == 3


@pytest.mark.parametrize(
    ("fenced", "factor"), [((), 5), ((1,), 5), ((1, 2, 3, 4), 1), ((1, 2, 3, 4), 3)]
)
def test_too_few_brokers_are_refused(fenced: tuple[int, ...], factor: int) -> None:
    error = refused(cluster(fenced=fenced), replication_factor=factor)
    assert error.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_cordoned_broker_gets_no_replicas() -> None:
    image = with_brokers(
        cluster(count=1),
        _2=broker(2, cordoned=(directory(2),)),
        _3=broker(3, directories=(directory(3), directory(9)), cordoned=(directory(3),)),
    )
    made = created(image, partition_count=4, replication_factor=2).topics["new"]
    assert {broker for one in made.partitions.values() for broker in one.replicas} == {1, 3}
    assert {*made.partitions[0].directories} == {directory(1), UNASSIGNED}


def test_replicas_can_be_named_and_may_be_down_but_for_one() -> None:
    image = cluster(fenced={2, 3})
    one = created(image, assignments={0: [2, 1]}).topics["new"].partitions[0]
    assert (one.replicas, one.isr, one.leader) == ((2, 1), (1,), 1)
    for wrong in ([2, 3], [1, 9], [1, 1]):
        error = refused(image, assignments={0: wrong})
        assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_name_is_used_once() -> None:
    image = created(cluster())
    assert refused(image).code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_grows_by_partitions_with_as_many_replicas() -> None:
    moving = partition((1, 2, 3), (1, 2), adding=(3,), removing=(2,))
    image = cluster(moving, fenced={4})
    grown = then(image, grow_topic(image, TopicGrowth(name=TOPIC, partition_count=4)).records())
    first, *added = partitions_of(grown)
    assert first == moving
    assert [len(one.isr) for one in added] == [2, 2, 2]
    assert not {4} & {broker for one in added for broker in one.replicas}
    named = TopicGrowth(name=TOPIC, partition_count=2, assignments=[[4, 1]])
    assert partitions_of(then(image, grow_topic(image, named).records()))[1].isr == (1,)
    with pytest.raises(ApiError) as caught:
        grow_topic(image, TopicGrowth(name="x", partition_count=2))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_takes_its_settings_along() -> None:
    image = created(cluster(), overrides={"retention.ms": "5"})
    gone = then(image, delete_topic(image, "new"))
    assert (gone.topics, gone.topic_names) == ({}, {})
    assert created(gone).topics["new"].configs == {}
    with pytest.raises(ApiError) as caught:
        delete_topic(gone, "new")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_before_level_17_partitions_have_no_directories() -> None:
    image = replace(cluster(), features={METADATA_VERSION: 16})
    records = create_topic(image, NewTopic(name="new"), ID, Defaults(1, 1), lambda: 0).records()
    (made, version) = records[-1]
    assert isinstance(made, PartitionRecord)
    assert (made.directories, version) == ([], 0)
