"""Directories of deleted topics: renamed at once, removed when their delay is over."""

import errno

import pytest

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.topics.removals import FILES_PER_RUN, MAX_OPEN_LOGS, SEGMENTS_PER_RUN
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import CrashMode
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import at, batch, disk, open_broker

DELAY_MS = 60_000


def partition_directories(file_system: FileSystem) -> list[str]:
    return [name for name in file_system.list("/d") if name.startswith("t-")]


def with_deleted_topic(file_system: FileSystem, partition_count: int = 1) -> Broker:
    broker = open_broker(
        file_system, log_index_size_max_bytes="120", log_initial_task_delay_ms="90000"
    )
    broker.scheduler.run_due(at(0.0))
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=partition_count))
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.admin.delete_topic(topic)
    return broker


def test_a_deleted_topics_files_stay_until_the_delay_is_over() -> None:
    file_system = disk("/d")
    broker = with_deleted_topic(file_system, partition_count=2)
    names = partition_directories(file_system)
    assert len(names) == 2
    assert all(name.endswith("-delete") for name in names)
    broker.scheduler.run_due(at(1000.0))
    broker.scheduler.run_due(at(1000.0 + DELAY_MS - 1))
    assert partition_directories(file_system) == names
    broker.scheduler.run_due(at(1000.0 + DELAY_MS))
    assert partition_directories(file_system) == []


@pytest.mark.slow
def test_the_segments_of_a_long_log_are_closed_before_its_files_go() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, log_index_size_max_bytes="120")
    broker.scheduler.run_due(at(0.0))
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    log = topic.partitions[0].log
    segments = SEGMENTS_PER_RUN + 10
    for _ in range(segments - 1):
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
        log.writer.roll(1)
    broker.admin.delete_topic(topic)
    (name,) = partition_directories(file_system)
    broker.scheduler.run_due(at(1000.0))
    broker.scheduler.run_due(at(1000.0 + DELAY_MS))
    files = file_system.list(f"/d/{name}")
    assert len([one for one in files if one.endswith(".log")]) == segments
    runs = 0
    while partition_directories(file_system):
        broker.scheduler.run_due(at(1000.0 + DELAY_MS))
        runs += 1
    assert runs == -(-len(files) // FILES_PER_RUN)


def test_the_wait_is_asked_for_as_a_deadline() -> None:
    broker = with_deleted_topic(disk("/d"))
    assert broker.scheduler.next_deadline_ms == 0.0, (
        "the wait has not begun: nobody has told the time"
    )
    broker.scheduler.run_due(at(1000.0))
    assert broker.scheduler.next_deadline_ms == 1000.0 + DELAY_MS
    broker.scheduler.run_due(at(1000.0 + DELAY_MS))
    assert broker.scheduler.next_deadline_ms == 90_000.0, "only the other jobs are left"


def test_a_restart_begins_the_wait_again() -> None:
    file_system = disk("/d")
    with_deleted_topic(file_system).close()
    after = file_system.crash(CrashMode.KEEP)
    broker = open_broker(after)
    assert broker.topics.find("t") is None
    broker.scheduler.run_due(at(5.0))
    broker.scheduler.run_due(at(5.0 + DELAY_MS - 1))
    assert len(partition_directories(after)) == 1
    broker.scheduler.run_due(at(5.0 + DELAY_MS))
    assert partition_directories(after) == []


def test_without_a_delay_files_go_with_the_next_jobs() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, log_segment_delete_delay_ms="0")
    broker.admin.delete_topic(broker.admin.create_topic(NewTopic(name="t")))
    broker.scheduler.run_due(at(0.0))
    assert partition_directories(file_system) == []


def test_one_run_removes_only_some_files() -> None:
    file_system = disk("/d")
    broker = with_deleted_topic(file_system)
    (name,) = partition_directories(file_system)
    for number in range(FILES_PER_RUN):
        file_system.open(f"/d/{name}/more-{number}", create=True).close()
    broker.scheduler.run_due(at(0.0))
    broker.scheduler.run_due(at(DELAY_MS))
    assert partition_directories(file_system) == [name]
    assert broker.scheduler.next_deadline_ms == float(DELAY_MS)
    broker.scheduler.run_due(at(DELAY_MS))
    assert partition_directories(file_system) == []


def test_a_disk_that_fails_takes_its_removals_with_it() -> None:
    probe = FaultyFileSystem(disk("/d"))
    with_deleted_topic(probe).scheduler.run_due(at(0.0))
    plan = FaultPlan(at_call=len(probe.calls), error=OSError(errno.EIO, "broken"))
    file_system = FaultyFileSystem(disk("/d"), plan)
    broker = with_deleted_topic(file_system)
    for time_ms in (0.0, float(DELAY_MS), float(DELAY_MS)):
        broker.scheduler.run_due(at(time_ms))
    assert broker.directories[0].is_offline
    assert len(partition_directories(file_system)) == 1


def test_files_of_the_logs_deleted_last_stay_open_until_they_are_removed() -> None:
    broker = with_deleted_topic(disk("/d"), partition_count=MAX_OPEN_LOGS + 3)
    queue = broker.topic_store.removals.queue
    assert [removal.log is None for removal in queue] == [True] * 3 + [False] * MAX_OPEN_LOGS
    broker.scheduler.run_due(at(1000.0))
    for _ in range(MAX_OPEN_LOGS):
        broker.scheduler.run_due(at(1000.0 + DELAY_MS))
    assert not queue


def test_files_of_a_deleted_log_are_closed_with_the_broker() -> None:
    broker = with_deleted_topic(disk("/d"))
    (removal,) = broker.topic_store.removals.queue
    assert removal.log is not None
    broker.close()
    assert removal.log is None
