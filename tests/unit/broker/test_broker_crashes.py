"""A crash at any call while topics are made, grown and deleted leaves each whole or not at all."""

import itertools
from typing import Any

import pytest

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.testing.crash_points import CrashPoint, every_crash_point
from tests.support.brokers import at, disk, open_broker

PARTITION_COUNT, GROWN_COUNT = 1, 2
DELAY_MS = 60_000
SMALL_INDEX = {"log_index_size_max_bytes": "120"}

NEW = NewTopic(name="t", partition_count=PARTITION_COUNT, overrides={"retention.ms": "5"})


def opened(file_system: FileSystem) -> Broker:
    return open_broker(file_system, ids=itertools.count(1000), **SMALL_INDEX)


def make_and_delete(file_system: FileSystem, done: list[Any]) -> None:
    broker = opened(file_system)
    topic = broker.admin.create_topic(NEW)
    done.append("made")
    done.append(broker.producer_ids.allocate())
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=GROWN_COUNT))
    done.append("grown")
    done.append("deletion begun")
    broker.admin.delete_topic(topic)
    done.append("deleted")
    for time_ms in (0.0, float(DELAY_MS)):
        broker.scheduler.run_due(at(time_ms))


def check(point: CrashPoint) -> None:
    broker = opened(point.file_system)
    topic = broker.topics.find("t")
    done = point.acknowledged
    if "deleted" in done:
        assert topic is None, point
    elif "made" in done and "deletion begun" not in done:
        assert topic is not None, point
    if topic is not None:
        counts = {GROWN_COUNT} if "grown" in done else {PARTITION_COUNT, GROWN_COUNT}
        assert topic.partition_count in counts, point
        assert sorted(topic.partitions) == list(range(topic.partition_count)), point
        assert topic.config == TopicConfig(retention_ms=5, segment_index_bytes=120), point
    else:
        assert broker.directories[0].logs == {}, point
        broker.admin.create_topic(NEW)
    check_removals(broker, point)
    assert broker.producer_ids.allocate() not in done, point
    broker.close()


def check_removals(broker: Broker, point: CrashPoint) -> None:
    """What was deleted before the crash goes after it, wherever its removal had come to."""
    for time_ms in (0.0, float(DELAY_MS)):
        broker.scheduler.run_due(at(time_ms))
    names = point.file_system.list("/d")
    assert not [name for name in names if name.endswith("-delete")], point


@pytest.mark.slow
def test_topics_are_whole_or_gone_whenever_the_broker_crashes() -> None:
    count = 0
    for point in every_crash_point(make_and_delete, make_file_system=lambda: disk("/d"), seeds=1):
        check(point)
        count += 1
    assert count > 100
