"""Brokers of one cluster on disks in memory: what orders and fetches make of their logs."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.replicas.replicas import TICKED_AT_ONCE
from ottla.broker.replication.fetches import Fetch
from ottla.broker.topics.offered_ends import replicated_end
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.fetch_queries import TELL_MS
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.recording import IoKind, RecordingFileSystem
from tests.support.brokers import at, batch, disk, open_broker
from tests.support.replicated_brokers import (
    Asked,
    ClusterInProcess,
    PartitionOrders,
    open_member,
    refused,
    replicas_of,
)

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("orders", 1)


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self, broker: Broker) -> None:
        self.events: list[tuple[Any, ...]] = []
        replicas_of(broker).listeners.append(self)

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None:
        self.events.append(("leader", partition, leader_epoch))

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        self.events.append(("follower", partition, leader_epoch))

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None:
        self.events.append(("stopped", partition, delete))

    def high_watermark_moved(self, partition: Partition) -> None:
        """Is not kept."""


def test_a_listener_hears_who_leads_follows_and_stops() -> None:
    broker = open_member(1, disk("/d"))
    heard, orders = Heard(broker), PartitionOrders(ORDERS, (1, 2))
    orders.lead(1, {1: broker})
    orders.lead(2, {1: broker})
    orders.stop({1: broker}, delete=True)
    assert heard.events == [
        ("leader", ORDERS, 0),
        ("follower", ORDERS, 1),
        ("stopped", ORDERS, True),
    ]


def test_a_lost_session_makes_a_follower_of_a_leader() -> None:
    broker = open_member(1, disk("/d"))
    heard, orders = Heard(broker), PartitionOrders(ORDERS, (1,))
    orders.lead(1, {1: broker})
    replicas_of(broker).fence()
    with pytest.raises(ApiError) as error:
        broker.appends.append(orders.partition(broker), batch(b"late"), now_ms=0)
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert heard.events[-1] == ("follower", ORDERS, 0)


def test_lagging_followers_of_many_partitions_leave_the_isr_in_several_rounds() -> None:
    broker = open_member(1, disk("/d"), replica_lag_time_max_ms="1000")
    places = [TopicPartition("orders", index) for index in range(TICKED_AT_ONCE + 1)]
    for place in places:
        PartitionOrders(place, (1, 2)).lead(1, {1: broker, 2: broker})
        broker.appends.append(broker.topics.partition(*place), batch(b"one"), now_ms=0)
    broker.appends.write_out()
    leading = [replicas_of(broker).manager.leading(one) for one in places]
    shrunk = []
    while broker.answers.next_deadline_ms is not None and broker.answers.next_deadline_ms <= 2000:
        replicas_of(broker).advance(at(2000))
        shrunk.append(sum(one is not None and one.isr.is_pending for one in leading))
    assert shrunk == [TICKED_AT_ONCE, TICKED_AT_ONCE + 1]


def test_what_one_broker_has_alone_is_not_read() -> None:
    broker = open_member(1, disk("/d"))
    orders = PartitionOrders(ORDERS, (1, 2))
    orders.lead(1, {1: broker})
    partition = orders.partition(broker)
    broker.appends.append(partition, batch(b"one", b"two"), now_ms=0)
    broker.appends.write_out()
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 2)


def test_what_its_only_replica_has_is_read_at_once() -> None:
    broker = open_member(1, disk("/d"))
    orders = PartitionOrders(ORDERS, (1,))
    orders.lead(1, {1: broker})
    partition = orders.partition(broker)
    broker.appends.append(partition, batch(b"one", b"two"), now_ms=0)
    broker.appends.write_out()
    assert partition.log.high_watermark == 2


def test_an_epoch_is_on_the_disk_before_its_first_batch_and_not_before_that() -> None:
    """A broker that takes over many partitions syncs no file of each before it leads them."""
    file_system = RecordingFileSystem(disk("/d"))
    broker = open_member(1, file_system)
    orders = PartitionOrders(ORDERS, (1,))
    orders.lead(1, {1: broker})
    file_system.calls.clear()
    orders.lead(1, {1: broker})
    assert [one for one in file_system.calls if one.kind is IoKind.SYNC] == []
    broker.appends.append(orders.partition(broker), batch(b"one"), now_ms=0)
    path = f"/d/orders-0/{LEADER_EPOCHS}"
    epochs = LeaderEpochs.read(file_system, path)
    assert [(one.epoch, one.start_offset) for one in epochs.entries] == [(1, 0)]
    assert not [one for one in file_system.calls if one.path.endswith(".log") and one.size]


def test_a_deleted_replica_leaves_neither_log_nor_topic() -> None:
    file_system = disk("/d")
    broker = open_member(1, file_system)
    orders = PartitionOrders(ORDERS, (1,))
    orders.lead(1, {1: broker})
    orders.stop({1: broker}, delete=True)
    assert broker.topics.find("orders") is None
    broker.close()
    assert open_member(1, file_system).topics.find("orders") is None


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_replica_that_was_deleted_may_come_back_after_a_restart(is_killed: bool) -> None:
    file_system = disk("/d")
    broker = open_member(1, file_system)
    orders, others = PartitionOrders(ORDERS, (1,)), PartitionOrders(OTHERS, (1,))
    others.lead(1, {1: broker})
    orders.lead(1, {1: broker})
    broker.directories[0].checkpoints.write()
    orders.stop({1: broker}, delete=True)
    if is_killed:
        file_system = file_system.crash(CrashMode.KEEP)
    else:
        broker.close()
    again = open_member(1, file_system)
    assert refused(orders.lead(1, {1: again})) == {}


def test_a_broker_that_returns_has_the_partitions_that_it_had_and_no_others() -> None:
    file_system = disk("/d")
    broker = open_member(1, file_system)
    third = PartitionOrders(TopicPartition("orders", 2), (1,))
    third.lead(1, {1: broker})
    broker.appends.append(third.partition(broker), batch(b"one"), now_ms=0)
    broker.close()
    again = open_member(1, file_system)
    assert list(again.topics.get("orders").partitions) == [2]
    assert third.partition(again).log.high_watermark == 1
    with pytest.raises(ApiError) as error:
        again.appends.append(third.partition(again), batch(b"two"), now_ms=0)
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_of_another_id_is_refused_and_stays() -> None:
    file_system = disk("/d")
    broker = open_member(1, file_system)
    orders = PartitionOrders(ORDERS, (1,))
    orders.lead(1, {1: broker})
    broker.appends.append(orders.partition(broker), batch(b"one"), now_ms=0)
    broker.close()
    again = open_member(1, file_system)
    other = PartitionOrders(ORDERS, (1,), topic_id=again.options.new_id())
    assert refused(other.lead(1, {1: again})) == {1: [ErrorCode.INCONSISTENT_TOPIC_ID]}
    assert orders.partition(again).log.log_end_offset == 1


def test_readers_of_files_see_what_other_replicas_have() -> None:
    file_system = disk("/d")
    broker = open_member(1, file_system)
    orders = PartitionOrders(ORDERS, (1, 2))
    orders.lead(1, {1: broker})
    for value in (b"one", b"two"):
        broker.appends.append(orders.partition(broker), batch(value), now_ms=0)
    broker.appends.write_out()
    assert _offered(file_system) == 0
    replicas_of(broker).fetched(Fetch(partition=ORDERS, follower=2, fetch_offset=1))
    broker.directories[0].checkpoints.write_high_watermarks()
    assert _offered(file_system) == 1
    broker.close()
    assert _offered(file_system) == 1
    open_broker(file_system).close()
    assert _offered(file_system) == 2


def _offered(file_system: FakeFileSystem) -> int:
    return replicated_end(open_for_reading("/d", file_system).partition(*ORDERS))


class FollowersFetch(Asked):
    """Of broker 3, which has all records, and knows that so much is committed."""

    def __init__(
        self, cluster: ClusterInProcess, offset: int, known: int, *, version: int = 18
    ) -> None:
        place = cluster.orders.place
        wanted = FetchPartition(
            partition=place.partition,
            current_leader_epoch=cluster.orders.leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=cluster.orders.leader_epoch,
            partition_max_bytes=1 << 20,
            high_watermark=known,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=3),
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchTopic(topic_id=cluster.orders.topic_id, partitions=[wanted])],
        )
        super().__init__(cluster, 1, request, version)

    @property
    def high_watermark(self) -> int | None:
        """That of the answer; `None` while it waits."""
        response = self.response
        return None if response is None else response.responses[0].partitions[0].high_watermark


def test_a_follower_that_knows_less_to_be_committed_than_its_leader_hears_of_it_soon() -> None:
    cluster = ClusterInProcess(ORDERS, (1, 2, 3))
    cluster.lead(1)
    cluster.produce(1, b"a")
    assert FollowersFetch(cluster, 0, 0).response is not None, "the record"
    waits, older = FollowersFetch(cluster, 1, 0), FollowersFetch(cluster, 1, 0, version=17)
    cluster.follow(2)
    cluster.follow(2)
    assert (waits.high_watermark, older.high_watermark) == (None, None), "records may come"
    cluster.let_pass(TELL_MS)
    assert (waits.high_watermark, older.high_watermark) == (1, None)
    for known in (0, -1):
        again = FollowersFetch(cluster, 1, known)
        assert again.high_watermark is None
        cluster.let_pass(TELL_MS)
        assert again.high_watermark == 1
    knows = FollowersFetch(cluster, 1, 1)
    cluster.let_pass(10 * TELL_MS)
    assert knows.high_watermark is None


def test_news_of_what_is_committed_comes_with_records_at_once() -> None:
    cluster = ClusterInProcess(ORDERS, (1, 3))
    cluster.lead(1)
    cluster.produce(1, b"a")
    assert FollowersFetch(cluster, 0, 0).high_watermark == 0
    waits = FollowersFetch(cluster, 1, 0)
    assert waits.high_watermark is None
    cluster.produce(1, b"b")
    assert waits.high_watermark == 1
