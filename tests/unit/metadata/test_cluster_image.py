"""The image of a cluster with ZooKeeper, from which Metadata is answered."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.image import MetadataImage, PartitionImage

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 1)


def broker(host: str) -> BrokerRegistration:
    return BrokerRegistration(
        endpoints=(Endpoint(listener="PLAIN", host=host, port=9092, security_protocol="PLAINTEXT"),)
    )


def partition(leader: int) -> PartitionImage:
    return PartitionImage(
        replicas=(1, 2), isr=(1, 2), leader=leader, leader_epoch=3, partition_epoch=0
    )


BOTH = {ORDERS: partition(1), PAID: partition(2)}


def changed(
    image: MetadataImage,
    partitions: Mapping[TopicPartition, PartitionImage | None],
    **topic_ids: Uuid,
) -> MetadataImage:
    return image.with_partitions(partitions.items(), topic_ids)


def test_a_change_adds_partitions_and_leaves_the_image_before_it_as_it_was() -> None:
    first = changed(MetadataImage(), BOTH)
    second = changed(first, {PAID: partition(1)})
    assert second.partition(ORDERS) == second.partition(PAID) == partition(1)
    assert first.partition(PAID) == partition(2)


def test_a_revision_counts_topics_that_come_grow_and_go_and_no_other_changes() -> None:
    more = TopicPartition("orders", 1)
    come = changed(MetadataImage(), {ORDERS: partition(1)})
    led_by_another = changed(come, {ORDERS: partition(2)})
    grown = changed(led_by_another, {more: partition(2)})
    gone = changed(grown, {ORDERS: None, more: None})
    assert [one.revision for one in (come, led_by_another, grown, gone)] == [1, 1, 2, 3]


def test_a_topic_goes_with_its_last_partition() -> None:
    image = changed(changed(MetadataImage(), BOTH, orders=Uuid(b"1" * 16)), {ORDERS: None})
    assert list(image.topics) == ["paid"]
    assert image.topic_names == {}


def test_an_id_names_a_topic_until_the_topic_goes_or_is_created_again() -> None:
    first, second = Uuid(b"1" * 16), Uuid(b"2" * 16)
    image = changed(MetadataImage(), BOTH, orders=first)
    assert image.topic_names == {first: "orders"}
    image = changed(image, BOTH)
    assert image.topic_names == {first: "orders"}
    assert changed(image, {}, orders=second).topic_names == {second: "orders"}
    image = changed(image, BOTH, orders=second)
    assert (image.topics["orders"].topic_id, image.topic_names) == (second, {second: "orders"})
    image = changed(image, {ORDERS: None})
    assert ("orders" in image.topics, image.topic_names) == (False, {})
    # Of a topic without partitions nothing is kept.
    assert changed(image, {}, gone=first).topic_names == {}


def test_a_leader_that_cannot_be_reached_is_shown_as_none() -> None:
    image = replace(changed(MetadataImage(), BOTH), brokers={1: broker("a"), 2: broker("b")})
    (view,) = image.partitions("orders", "PLAIN")
    assert (view.error, view.leader, view.offline) == (ErrorCode.NONE, 1, ())
    (view,) = image.partitions("orders", "TLS")
    assert (view.error, view.leader) == (ErrorCode.LISTENER_NOT_FOUND, -1)
    image = replace(image, brokers={2: broker("b")})
    (view,) = image.partitions("orders", "PLAIN")
    assert (view.error, view.leader, view.offline) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, (1,))
    assert list(image.partitions("unknown", "PLAIN")) == []
    (view,) = replace(image, brokers={1: broker("a")}).partitions("orders", "TLS", asked=1)
    assert (view.error, view.leader) == (ErrorCode.NONE, 1), "the client has reached it already"
    (view,) = image.partitions("orders", "TLS", asked=1)
    assert view.leader == -1, "it does not know of itself yet"


def test_other_changes_of_the_image_leave_partitions_and_the_other_way_round() -> None:
    image = replace(changed(MetadataImage(), BOTH), quotas={(("user", "a"),): {"x": 1.0}})
    assert changed(image, {PAID: None}).quotas == image.quotas
    assert image.with_configs(4, {"1": {"a": "b"}}).topics is image.topics
