"""A crash at any call while topics are made and deleted leaves them whole or not at all."""

import itertools
from typing import Any

import pytest

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.topics import NewTopic
from ottla.config.topic import TopicConfig
from ottla.testing.crash_points import CrashPoint, every_crash_point
from tests.brokers import disk, open_broker

PARTITION_COUNT = 2
SMALL_INDEX = {"log_index_size_max_bytes": "120"}

NEW = NewTopic(name="t", partition_count=PARTITION_COUNT, overrides={"retention.ms": "5"})


def opened(file_system: FileSystem) -> Broker:
    return open_broker(file_system, ids=itertools.count(1000), **SMALL_INDEX)


def make_and_delete(file_system: FileSystem, done: list[Any]) -> None:
    broker = opened(file_system)
    topic = broker.create_topic(NEW)
    done.append("made")
    done.append(broker.allocate_producer_id())
    done.append("deletion begun")
    broker.delete_topic(topic)
    done.append("deleted")


def check(point: CrashPoint) -> None:
    broker = opened(point.file_system)
    topic = broker.topics.find("t")
    done = point.acknowledged
    if "deleted" in done:
        assert topic is None, point
    elif "made" in done and "deletion begun" not in done:
        assert topic is not None, point
    if topic is not None:
        assert sorted(topic.partitions) == list(range(PARTITION_COUNT)), point
        assert topic.config == TopicConfig(retention_ms=5, segment_index_bytes=120), point
    else:
        assert broker.directories[0].logs == {}, point
        broker.create_topic(NEW)
    assert broker.allocate_producer_id() not in done, point
    broker.close()


@pytest.mark.slow
def test_topics_are_whole_or_gone_whenever_the_broker_crashes() -> None:
    count = 0
    for point in every_crash_point(make_and_delete, make_file_system=lambda: disk("/d"), seeds=1):
        check(point)
        count += 1
    assert count > 100
