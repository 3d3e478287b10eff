"""The topics of a directory by its files are those that its broker would list."""

from pathlib import Path

import pytest

import ottla
from ottla.base.errors import CorruptionError
from ottla.client.administration.descriptions import TopicActivity
from ottla.embedded.log import Log
from ottla.storage.reading.read_only_directory import LostPartitionError
from tests.support.read_only import reading

SINCE_MS = 1_700_000_000_005


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = ottla.open(tmp_path, {"log.initial.task.delay.ms": 3_600_000})
    log.create_topic("orders", partitions=2, config={"segment.bytes": 1024})
    log.create_topic("books", config={"cleanup.policy": "compact", "retention.ms": 5})
    log.create_topic("gone")
    for number in range(40):
        log.append("orders", b"x" * 100, partition=0, timestamp_ms=1_700_000_000_000 + number)
    log.delete_records("orders", {0: 3})
    log.delete_topic("gone")
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 4})
    return log


def listed(topics: ottla.Admin, *, internal: bool = True) -> list[tuple[object, ...]]:
    found: list[TopicActivity] = topics.topic_activity(
        topics.describe_topics(internal=internal), SINCE_MS
    )
    return [
        (
            one.topic.name,
            one.topic.topic_id,
            one.topic.is_internal,
            [(each.leader, each.replicas, each.offline) for each in one.topic.partitions],
            one.partitions,
        )
        for one in found
    ]


def files_of(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.rglob("*")
    }


@pytest.mark.slow
def test_the_files_say_what_the_broker_says(log: Log, tmp_path: Path) -> None:
    with log:
        at_rest = reading(tmp_path)
        names = ["books", "orders"]
        with ottla.Admin(log) as admin:
            assert listed(at_rest) == listed(admin)
            assert at_rest.topics_settings(names) == admin.topics_settings(names)
        (orders,) = at_rest.topic_activity(at_rest.describe_topics()[1:], SINCE_MS)
        assert (orders.count, orders.recent_count) == (37, 35)


def test_nothing_changes_while_somebody_has_the_directory_and_after(
    log: Log, tmp_path: Path
) -> None:
    with log:
        before = files_of(tmp_path)
        while_open = listed(reading(tmp_path), internal=False)
        assert files_of(tmp_path) == before
    before = files_of(tmp_path)
    assert listed(reading(tmp_path), internal=False) == while_open
    assert files_of(tmp_path) == before


@pytest.mark.slow
def test_a_partition_that_is_gone_has_no_leader_and_damage_is_named(
    log: Log, tmp_path: Path
) -> None:
    log.close()
    directory = tmp_path / "orders-1"
    directory.rename(tmp_path / "elsewhere")
    orders = reading(tmp_path).describe_topics()[-1]
    assert [one.partition for one in orders.partitions] == [0, 1]
    first = min((tmp_path / "orders-0").glob("*.log"))
    first.write_bytes(first.read_bytes()[:-30])
    with pytest.raises(LostPartitionError, match="put it back"):
        listed(reading(tmp_path), internal=False)
    (tmp_path / "elsewhere").rename(directory)
    with pytest.raises(CorruptionError, match="ottla log check"):
        listed(reading(tmp_path), internal=False)
