"""The directory of one partition that another program has removed under a running broker."""

import logging
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, batch, open_broker
from tests.support.replicated_brokers import ClusterInProcess, refused, replicas_of


def remove_folder(disk: FakeFileSystem, folder: str) -> None:
    for name in disk.list(folder):
        disk.remove(f"{folder}/{name}")
    disk.remove_directory(folder)


def errors_in(caplog: Any) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


def test_a_roll_into_a_directory_that_is_gone_refuses_its_partition_and_serves_the_others(
    caplog: Any,
) -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d")
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    for partition in topic.partitions.values():
        broker.appends.append(partition, batch(b"v"), now_ms=NOW_MS)
    broker.appends.write_out()
    remove_folder(disk, "/d/t-0")
    with pytest.raises(StorageError, match="/d/t-0: the directory of the partition is gone"):
        topic.partition(0).log.writer.roll(NOW_MS)
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            broker.appends.append(topic.partition(0), batch(b"v"), now_ms=NOW_MS)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    broker.appends.append(topic.partition(1), batch(b"v"), now_ms=NOW_MS)
    broker.appends.write_out()
    topic.partition(1).log.writer.roll(NOW_MS)
    leaders = [one.leader for one in broker.view.partitions("t", "PLAINTEXT")]
    assert leaders == [NO_LEADER, broker.node_id]
    assert not broker.directories[0].is_offline
    (line,) = errors_in(caplog)
    assert line.startswith("/d/t-0 is gone, and t-0 refused until a restart; the rest of /d is")
    assert "`ottla log give-up /d t-0`" in line
    assert not broker.log_jobs.flushes.due(1e9)[1:]
    broker.close()
    again = open_broker(disk, "/d")
    found = again.topics.get("t")
    assert (found.partition(1).log.log_end_offset, set(found.partitions)) == (2, {1})


def test_a_disk_that_is_not_mounted_any_more_takes_its_directory_offline() -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d")
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    remove_folder(disk, "/d/t-0")
    disk.remove("/d/.lock")
    with pytest.raises(StorageError):
        topic.partition(0).log.writer.roll(NOW_MS, base_offset=1)
    assert broker.directories[0].is_offline


@pytest.mark.parametrize("isr", [(1, 2), (1,)])
def test_a_replica_whose_directory_is_gone_is_given_up_at_once(isr: tuple[int, ...]) -> None:
    place = TopicPartition("orders", 0)
    cluster = ClusterInProcess(place, (1, 2))
    cluster.lead(1, isr)
    cluster.replicate()
    cluster.produce(1, b"one")
    cluster.replicate()
    remove_folder(cluster.disks[1], "/d/orders-0")
    with pytest.raises(StorageError):
        cluster.log(1).writer.roll(NOW_MS)
    cluster.let_pass(1)
    replicas = replicas_of(cluster.brokers[1])
    assert (replicas.storage_failures, set(replicas.lost)) == (1, {place})
    assert cluster.fetch(1, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(cluster.brokers[1].directories.online) == 1
    applied = cluster.orders.lead(2, cluster.brokers, (2,))
    assert applied[1].errors == {place: ErrorCode.KAFKA_STORAGE_ERROR}
    assert cluster.fetch(2, 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_topic_one_of_whose_partitions_is_gone_is_deleted_and_made_anew(
    is_noticed: bool,
) -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d")
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=3))
    broker.admin.create_topic(NewTopic(name="other"))
    remove_folder(disk, "/d/t-1")
    if is_noticed:
        with pytest.raises(StorageError):
            topic.partition(1).log.writer.roll(NOW_MS, base_offset=1)
    broker.admin.delete_topics([topic])
    again = broker.admin.create_topic(NewTopic(name="t", partition_count=3))
    for partition in again.partitions.values():
        broker.appends.append(partition, batch(b"v"), now_ms=NOW_MS)
    broker.appends.write_out()
    assert [one.leader for one in broker.view.partitions("t", "PLAINTEXT")] == [broker.node_id] * 3
    broker.topic_store.removals.run(1.0, 0)
    assert not broker.topic_store.removals.queue
    assert not broker.directories[0].is_offline
    broker.close()
    found = open_broker(disk, "/d").topics.get("t")
    assert [found.partition(index).log.log_end_offset for index in range(3)] == [1, 1, 1]


def test_files_of_a_deleted_topic_that_another_program_has_removed_are_not_missed() -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d")
    broker.admin.delete_topics([broker.admin.create_topic(NewTopic(name="t"))])
    (name,) = (one for one in disk.list("/d") if one.startswith("t-0."))
    remove_folder(disk, f"/d/{name}")
    broker.topic_store.removals.run(1.0, 0)
    assert not broker.topic_store.removals.queue
    assert not broker.directories[0].is_offline


def test_a_replica_whose_directory_is_gone_is_deleted_and_made_anew() -> None:
    place = TopicPartition("orders", 0)
    cluster = ClusterInProcess(place, (1, 2))
    cluster.lead(1)
    cluster.replicate()
    remove_folder(cluster.disks[1], "/d/orders-0")
    with pytest.raises(StorageError):
        cluster.log(1).writer.roll(NOW_MS, base_offset=1)
    cluster.let_pass(1)
    cluster.orders.delete(cluster.brokers)
    assert not replicas_of(cluster.brokers[1]).lost
    assert not cluster.brokers[1].directories[0].is_offline
    assert not cluster.brokers[1].directories.refuse_some
    assert cluster.brokers[1].topics.find("orders") is None


def test_a_topic_that_had_lost_a_partition_before_the_start_is_deleted_and_made_anew() -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    broker.close()
    remove_folder(disk, "/d/t-0")
    broker = open_broker(disk, "/d")
    assert set(broker.topics.get("t").partitions) == {1}
    broker.admin.delete_topics([broker.topics.get("t")])
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    broker.close()
    assert set(open_broker(disk, "/d").topics.get("t").partitions) == {0, 1}


def test_a_replica_that_was_lost_before_the_start_is_deleted_and_made_anew() -> None:
    place = TopicPartition("orders", 0)
    cluster = ClusterInProcess(place, (1, 2))
    cluster.lead(1)
    cluster.replicate()
    cluster.kill(1)
    remove_folder(cluster.disks[1], "/d/orders-0")
    cluster.start(1)
    assert set(refused(cluster.orders.lead(2, cluster.brokers))) == {1}
    cluster.orders.delete(cluster.brokers)
    cluster.orders.topic_id = Uuid(b"of another topic")
    cluster.orders.leader_epoch = -1
    cluster.lead(1)
    cluster.produce(1, b"one")
    assert cluster.log(1).log_end_offset == 1
    cluster.kill(1, CrashMode.KEEP)
    cluster.start(1)
    cluster.lead(2, (1, 2))
    assert cluster.log(1).log_end_offset == 1
