"""Topics on the disks: what growing them does, and what it must leave alone."""

import errno
import itertools
from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.storage.files.filenames import INTEGRITY
from ottla.testing import CrashMode
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import TOPIC_DEFAULTS, batch, disk, open_broker
from tests.support.metadata import lose_metadata


def growth(count: int, assignments: list[list[int]] | None = None) -> TopicGrowth:
    return TopicGrowth(name="t", partition_count=count, assignments=assignments)


def with_topic(count: int = 2) -> Broker:
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="t", partition_count=count))
    return broker


def test_a_grown_topic_keeps_its_records_and_takes_more() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", overrides={"retention.ms": "5"}))
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.admin.grow_topic(growth(3))
    broker.appends.append(broker.topics.partition("t", 2), batch(), now_ms=1)
    broker.close()
    topic = open_broker(file_system.crash(CrashMode.STRICT)).topics.get("t")
    assert topic.partition_count == 3
    assert [one.log.log_end_offset for _, one in sorted(topic.partitions.items())] == [1, 0, 1]
    assert topic.config == replace(TOPIC_DEFAULTS, retention_ms=5)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (growth(2), ErrorCode.INVALID_PARTITIONS),
        (growth(1), ErrorCode.INVALID_PARTITIONS),
        (growth(-1), ErrorCode.INVALID_PARTITIONS),
        (growth(10_001), ErrorCode.INVALID_PARTITIONS),
        (growth(3, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (growth(3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (growth(3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (TopicGrowth(name="u", partition_count=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_growth_that_cannot_be_is_refused(wanted: TopicGrowth, code: ErrorCode) -> None:
    broker = with_topic()
    with pytest.raises(ApiError) as caught:
        broker.admin.grow_topic(wanted)
    assert caught.value.code is code
    assert broker.topics.get("t").partition_count == 2


def test_a_growth_may_name_this_broker_and_be_tried_dry() -> None:
    broker = with_topic()
    broker.admin.grow_topic(growth(3, [[1]]), validate_only=True)
    assert sorted(broker.topics.get("t").partitions) == [0, 1]
    broker.admin.grow_topic(growth(3, [[1]]))
    assert sorted(broker.topics.get("t").partitions) == [0, 1, 2]


def test_internal_topics_are_neither_grown_nor_deleted() -> None:
    broker = open_broker(disk("/d"))
    topic = broker.admin.create_topic(NewTopic(name="__consumer_offsets"))
    with pytest.raises(ApiError) as caught:
        broker.admin.grow_topic(TopicGrowth(name=topic.name, partition_count=2))
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(ApiError) as caught:
        broker.admin.delete_topic(topic)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def on_two_disks(file_system: FaultyFileSystem) -> Broker:
    broker = open_broker(file_system, "/d", "/e", log_index_size_max_bytes="120")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return broker


@pytest.mark.slow
def test_a_growth_that_a_disk_refuses_is_made_up_for_at_the_next_start() -> None:
    probe = FaultyFileSystem(disk("/d", "/e"))
    broker = on_two_disks(probe)
    first_call = len(probe.calls)
    broker.admin.grow_topic(growth(4))
    for at_call in range(first_call, len(probe.calls)):
        plan = FaultPlan(at_call=at_call, error=OSError(errno.ENOSPC, "full"))
        disks = disk("/d", "/e")
        broker = on_two_disks(FaultyFileSystem(disks, plan))
        with pytest.raises(ApiError) as caught:
            broker.admin.grow_topic(growth(4))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        topic = broker.topics.get("t")
        assert {0, 1} <= topic.partitions.keys()
        count = topic.partition_count
        assert count in (2, 4)
        assert topic.known_indexes == list(range(count))
        again = open_broker(disks.crash(CrashMode.KEEP), "/d", "/e", log_index_size_max_bytes="120")
        assert len(again.topics.get("t").partitions) == again.topics.get("t").partition_count
        assert count == 2 or again.topics.get("t").partition_count == 4


def test_no_two_topics_have_the_same_id() -> None:
    broker = open_broker(
        disk("/d"), ids=itertools.chain([7], [8] * 9, [9] * 9, itertools.count(10))
    )
    ids = {broker.admin.create_topic(NewTopic(name=name)).topic_id for name in ("a", "b", "c")}
    assert len(ids) == 3


def test_two_topics_of_one_id_on_the_disk_stop_the_start() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    for name in ("a", "b"):
        broker.admin.create_topic(NewTopic(name=name))
    broker.close()
    text = file_system.open("/d/a-0/partition.metadata").pread(1000, 0)
    after = file_system.crash(CrashMode.KEEP)
    after.open("/d/b-0/partition.metadata", writable=True).pwrite(text, 0)
    lose_metadata(after)
    after.remove(f"/d/b-0/{INTEGRITY}")
    with pytest.raises(UserError, match="topics a and b have the same id"):
        open_broker(after)


def test_a_format_that_is_ignored_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    overrides: dict[str, str | None] = {"message.format.version": "0.9.0"}
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, overrides=overrides))
    assert broker.topics.get("t").config.magic == 2
    assert "topic t: message.format.version=0.9.0 is ignored" in caplog.text
    broker.close()
    caplog.clear()
    broker = open_broker(file_system, inter_broker_protocol_version="2.8")
    assert broker.topics.get("t").config.magic == 0
    assert caplog.text == ""


def test_a_version_that_is_none_is_refused() -> None:
    new = NewTopic(name="t", partition_count=1, overrides={"message.format.version": "7.7"})
    with pytest.raises(ApiError, match=r"Version 7\.7 is not a valid version") as refused:
        open_broker(disk("/d")).admin.create_topic(new)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
