"""What a broker shows of its cluster: its image, which has what it serves, and its failed disks."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TRANSACTION_STATE, TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.groups.coordinator import offsets_topic
from ottla.broker.metadata.log import MetadataLog
from ottla.coordinator.placement import partition_for
from ottla.metadata.cluster_view import Node, PartitionView, Reach
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.records import PartitionChangeRecord
from tests.support.brokers import disk, open_broker
from tests.support.metadata import image_of
from tests.support.replicated_brokers import PartitionOrders, open_member
from tests.support.turns import with_others_in_between

REACH = Reach("OUTSIDE", ("me", 9092))
ME = (1,)


def shown(broker: Broker, topic: str = "t") -> list[PartitionView]:
    return list(broker.view.partitions(topic, REACH.listener))


def led(index: int, epoch: int = 0) -> PartitionView:
    return PartitionView(index, ErrorCode.NONE, 1, epoch, ME, ME, ())


def lost(index: int, epoch: int = 0) -> PartitionView:
    return PartitionView(index, ErrorCode.LEADER_NOT_AVAILABLE, -1, epoch, ME, ME, ME)


def test_the_image_of_a_broker_alone_follows_each_change_of_a_topic() -> None:
    broker = open_broker(disk("/d"), broker_rack="here")
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    seen = broker.catalog.revision
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=2))
    assert broker.catalog.revision > seen
    change = ConfigChange(name="retention.ms", value="7")
    broker.admin.alter_topic("t", Alteration(changes=[change]))
    image = broker.image_store.image
    assert image.topics["t"].configs == {"retention.ms": "7"}
    assert (shown(broker), broker.catalog.name_by_id(topic.topic_id)) == ([led(0), led(1)], "t")
    view = broker.view
    assert (view.nodes(REACH), view.controller_id) == ([Node(1, "me", 9092, "here")], 1)
    seen = broker.catalog.revision
    broker.admin.delete_topic(topic)
    assert broker.catalog.revision > seen
    assert (list(broker.catalog), broker.catalog.name_by_id(topic.topic_id)) == ([], None)
    assert (shown(broker), image.topics["t"].partition_count) == ([], 2)


def log_of(broker: Broker) -> MetadataLog:
    assert isinstance(broker.metadata, MetadataLog)
    return broker.metadata


def test_the_image_of_topics_is_what_the_metadata_log_holds() -> None:
    there = disk("/d")
    broker = open_broker(there)
    for name in ("a", "b"):
        broker.admin.create_topic(NewTopic(name=name, overrides={"retention.ms": "7"}))
    broker.admin.grow_topic(TopicGrowth(name="a", partition_count=3))
    broker.admin.alter_topic("a", Alteration(changes=[], is_whole=True))
    broker.admin.delete_topic(broker.topics.get("b"))
    shown = broker.image_store.image
    assert dict(shown.topics) == dict(image_of(there).topics)
    broker.close()
    again = open_broker(there).image_store.image
    assert (again.topics, again.topic_names) == (shown.topics, shown.topic_names)


def test_a_partition_that_kafka_left_without_a_leader_is_led_in_the_epoch_of_its_record() -> None:
    """Kafka's controller takes the leader away in a new epoch when the only broker stops."""
    there = disk("/d")
    broker = open_broker(there)
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    left = PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=-1)
    log_of(broker).commit([(left, 0)])
    broker.close()
    broker = open_broker(there)
    assert shown(broker) == [led(0, epoch=1), led(1)]
    assert [one.leader_epoch for one in broker.topics.get("t").partitions.values()] == [1, 0]


def test_a_topic_has_no_leader_before_its_files_are_there() -> None:
    broker = open_broker(disk("/d"))
    seen: list[list[PartitionView]] = []
    with with_others_in_between(lambda: seen.append(shown(broker))):
        broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    assert ({tuple(one) for one in seen}, shown(broker)) == ({(), (lost(0),)}, [led(0)])


def test_a_broker_has_peers_unless_it_is_its_only_voter() -> None:
    alone, member = open_broker(disk("/d")).view, open_member(1, disk("/d")).view
    assert (alone.has_peers, member.has_peers) == (False, True)
    assert ("metadata.version" in alone.features, member.features) == (True, {})


def test_a_topic_that_no_record_names_is_in_the_image_and_not_in_the_log() -> None:
    there = disk("/d", "/elsewhere")
    other = open_broker(there, "/elsewhere")
    made = other.admin.create_topic(NewTopic(name="copied", partition_count=2))
    other.close()
    for index in range(2):
        there.rename(f"/elsewhere/copied-{index}", f"/d/copied-{index}")
    broker = open_broker(there)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    assert sorted(one.name for one in broker.catalog) == ["copied", "t"]
    assert broker.catalog.name_by_id(made.topic_id) == "copied"
    assert shown(broker, "copied") == [led(0), led(1)]
    assert list(broker.unconfirmed.unknown) == ["copied"]
    assert list(image_of(there).topics) == ["t"]
    broker.admin.confirm_topics({"copied": {"retention.ms": "7"}})
    assert broker.image_store.image.topics["copied"].configs == {"retention.ms": "7"}
    assert sorted(image_of(there).topics) == ["copied", "t"]


def test_what_is_on_a_failed_disk_has_no_leader_at_once_and_after_a_restart() -> None:
    there = disk("/d", "/e")
    broker = open_broker(there, "/d", "/e", offsets_topic_num_partitions="2")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    broker.admin.create_topic(offsets_topic(broker.settings.config))
    assert [broker.view.coordinator_of("__consumer_offsets", key) for key in "ab"] == [1, 1]
    first, second = broker.topics.get("t").partitions.values()
    second.directory.health.fail(OSError(5, "broken"))
    assert shown(broker) == [led(0), lost(1)]
    assert [broker.topics.is_online(TopicPartition("t", one)) for one in range(3)] == [
        True,
        False,
        False,
    ]
    gone, there_still = sorted("ab", key=lambda one: partition_for(one, 2), reverse=True)
    assert broker.view.coordinator_of("__consumer_offsets", there_still) == 1
    with pytest.raises(ApiError) as refusal:
        broker.view.coordinator_of("__consumer_offsets", gone)
    assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    first.directory.health.fail(OSError(5, "broken"))
    assert shown(broker) == [lost(0), lost(1)]


def test_a_coordinator_is_asked_for_where_nothing_is_kept_yet() -> None:
    assert open_broker(disk("/d")).view.coordinator_of("__consumer_offsets", "g") == 1
    with pytest.raises(ApiError):
        open_member(1, disk("/d")).view.coordinator_of("__consumer_offsets", "g")


def test_a_failed_disk_holds_up_no_transaction_of_another_one() -> None:
    """A member has some partitions of the topic: the others count when an id is looked for."""
    broker = open_member(1, disk("/d", "/e"), "/d", "/e")
    topic_id = broker.options.new_id()
    for index, replica in enumerate((1, 1, 2)):
        place = TopicPartition(TRANSACTION_STATE, index)
        PartitionOrders(place, (replica,), topic_id=topic_id).lead(replica, {1: broker})
    key = next(one for one in "abcdefgh" if partition_for(one, 3) == 1 != partition_for(one, 2))
    broker.topics.partition(TRANSACTION_STATE, 0).directory.health.fail(OSError(5, "broken"))
    assert broker.transactions.is_available(key)
