"""What Metadata would be answered from."""

from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.metadata_cache import MetadataCache
from ottla.controller.context import LEADER_DURING_DELETE
from ottla.controller.requests import PartitionMetadata, UpdateMetadata
from ottla.zookeeper.brokers import BrokerRegistration, Endpoint
from ottla.zookeeper.topics import PartitionState

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 1)


def broker(host: str) -> BrokerRegistration:
    return BrokerRegistration(
        endpoints=(Endpoint(listener="PLAIN", host=host, port=9092, security_protocol="PLAINTEXT"),)
    )


def partition(leader: int, offline: tuple[int, ...] = ()) -> PartitionMetadata:
    return PartitionMetadata(
        state=PartitionState(leader=leader, leader_epoch=3, controller_epoch=1, isr=(1, 2)),
        partition_epoch=0,
        replicas=(1, 2),
        offline=offline,
    )


UPDATE = UpdateMetadata(
    partitions={ORDERS: partition(1), PAID: partition(2)},
    topic_ids={"orders": Uuid(bytes(16))},
    brokers={1: broker("a"), 2: broker("b")},
)


def test_an_update_adds_partitions_and_replaces_brokers() -> None:
    first = MetadataCache().updated(UPDATE, 1)
    second = first.updated(
        replace(UPDATE, partitions={PAID: partition(1)}, topic_ids={}, brokers={1: broker("a")}), 2
    )
    assert (first.controller, second.controller) == (1, 2)
    assert second.partition(ORDERS) == partition(1)
    assert second.partition(PAID) == partition(1)
    assert list(second.brokers) == [1]
    assert first.partition(PAID) == partition(2)


def test_a_revision_counts_topics_that_come_grow_and_go_and_no_other_changes() -> None:
    def after(cache: MetadataCache, **partitions: PartitionMetadata) -> MetadataCache:
        places = {TopicPartition(one[:-1], int(one[-1])): its for one, its in partitions.items()}
        return cache.updated(replace(UPDATE, partitions=places, topic_ids={}), 1)

    come = after(MetadataCache(), orders0=partition(1))
    led_by_another = after(come, orders0=partition(2))
    grown = after(led_by_another, orders1=partition(2))
    gone = after(
        grown, orders0=partition(LEADER_DURING_DELETE), orders1=partition(LEADER_DURING_DELETE)
    )
    assert [one.revision for one in (come, led_by_another, grown, gone)] == [1, 1, 2, 3]


def test_a_topic_goes_with_its_last_partition() -> None:
    deleted = {ORDERS: partition(LEADER_DURING_DELETE)}
    cache = MetadataCache().updated(UPDATE, 1).updated(replace(UPDATE, partitions=deleted), 1)
    assert list(cache.topics) == ["paid"]
    assert cache.topic_ids == {}


def test_an_id_names_a_topic_until_the_topic_goes_or_is_created_again() -> None:
    first, second = Uuid(b"1" * 16), Uuid(b"2" * 16)
    cache = MetadataCache().updated(replace(UPDATE, topic_ids={"orders": first}), 1)
    assert cache.topic_names == {first: "orders"}
    cache = cache.updated(replace(UPDATE, topic_ids={}), 1)
    assert cache.topic_names == {first: "orders"}
    cache = cache.updated(replace(UPDATE, topic_ids={"orders": second}), 1)
    assert (cache.topic_ids, cache.topic_names) == ({"orders": second}, {second: "orders"})
    gone = replace(UPDATE, partitions={ORDERS: partition(LEADER_DURING_DELETE)}, topic_ids={})
    cache = cache.updated(gone, 1)
    assert (cache.topic_ids, cache.topic_names) == ({}, {})
    # Of a topic without partitions nothing is kept.
    unknown = replace(UPDATE, partitions={}, topic_ids={"gone": first})
    assert cache.updated(unknown, 1).topic_names == {}


def test_a_leader_that_cannot_be_reached_is_shown_as_none() -> None:
    cache = MetadataCache().updated(UPDATE, 1)
    (view,) = cache.partitions("orders", "PLAIN")
    assert (view.error, view.leader, view.offline) == (ErrorCode.NONE, 1, ())
    (view,) = cache.partitions("orders", "TLS")
    assert (view.error, view.leader) == (ErrorCode.LISTENER_NOT_FOUND, -1)
    cache = cache.updated(replace(UPDATE, partitions={}, brokers={2: broker("b")}), 1)
    (view,) = cache.partitions("orders", "PLAIN")
    assert (view.error, view.leader, view.offline) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, (1,))
    assert cache.partitions("unknown", "PLAIN") == []
