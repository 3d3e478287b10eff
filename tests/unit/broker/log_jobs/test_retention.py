"""Retention on a running broker: when it comes by, in what slices, and what it says."""

import errno
import logging
from itertools import product
from typing import Any

import pytest

from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.log_jobs import retention
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.directory import log_checkpoints
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention import retention as storage_retention
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.faults import Effect, FaultPlan, FaultyFileSystem
from ottla.testing.recording import IoKind
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.metadata import record_settings

HOUR = 3_600_000
FIRST_MS = 30_000
INTERVAL_MS = 300_000
DELAY_MS = 60_000


class World:
    """A broker with a topic "t", and a clock of both kinds."""

    def __init__(self, file_system: FakeFileSystem, *, partitions: int = 1, **topic: str) -> None:
        self.file_system = file_system
        self.broker = open_broker(file_system, log_index_size_max_bytes="240")
        overrides = {name.replace("_", "."): value for name, value in topic.items()}
        overrides = {"retention.ms": str(HOUR), "segment.bytes": "200", **overrides}
        self.broker.admin.create_topic(
            NewTopic(name="t", partition_count=partitions, overrides=dict(overrides))
        )
        self.now_ms = 0
        self.tick(0)

    def tick(self, ms: int) -> None:
        self.now_ms += ms
        self.broker.scheduler.run_due(
            Timestamps(now_ms=NOW_MS + self.now_ms, monotonic_ms=self.now_ms)
        )

    def append(self, count: int = 1, partition: int = 0, timestamp_ms: int | None = None) -> None:
        for _ in range(count):
            at_ms = NOW_MS + self.now_ms if timestamp_ms is None else timestamp_ms
            self.broker.appends.append(
                self.broker.topics.partition("t", partition),
                batch(b"v" * 80, timestamp_ms=at_ms),
                now_ms=at_ms,
            )
            self.broker.appends.write_out()

    def begin_cleaning(self) -> None:
        log = self.broker.topics.partition("t", 0).log
        self.broker.log_jobs.access.begin_cleaning(TopicPartition("t", 0), log, lambda: None)

    def end_cleaning(self) -> None:
        log = self.broker.topics.partition("t", 0).log
        self.broker.log_jobs.access.end_cleaning(TopicPartition("t", 0), log)

    def segments(self, partition: int = 0) -> int:
        return len(self.broker.topics.partition("t", partition).log.segments)

    def files(self, suffix: str, partition: int = 0) -> list[str]:
        names = self.file_system.list(f"/d/t-{partition}")
        return [name for name in names if name.endswith(suffix)]


def test_it_comes_by_after_the_initial_delay_and_then_at_its_interval() -> None:
    world = World(disk("/d"), retention_ms="1000")
    world.append(4)
    world.tick(FIRST_MS - 1)
    assert world.segments() == 4
    world.tick(1)
    assert world.segments() == 1
    world.append(4)
    world.tick(INTERVAL_MS - 1)
    assert world.segments() == 4
    world.tick(1)
    assert world.segments() == 1


def test_files_are_renamed_at_once_and_removed_after_the_topics_delay() -> None:
    world = World(disk("/d"), retention_ms="1000", file_delete_delay_ms="7000")
    world.append(3)
    world.tick(FIRST_MS)
    assert len(world.files(".log.deleted")) == 3
    while world.broker.scheduler.next_job_ms == world.now_ms:
        world.tick(0)
    assert world.broker.scheduler.next_deadline_ms == FIRST_MS + 7000
    world.tick(6999)
    assert len(world.files(".log.deleted")) == 3
    world.tick(1)
    assert world.files(".deleted") == []


def test_many_segments_go_in_slices_between_which_clients_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "SEGMENTS_PER_SLICE", 3)
    world = World(disk("/d"), partitions=2, retention_ms="1000")
    world.append(4)
    world.append(4, partition=1)
    world.tick(FIRST_MS)
    left = {world.segments(0) + world.segments(1)}
    while world.broker.scheduler.next_job_ms == world.now_ms:
        world.tick(0)
        left.add(world.segments(0) + world.segments(1))
    assert left == {7, 4, 2}
    assert (world.segments(0), world.segments(1)) == (1, 1)


def test_a_changed_setting_holds_the_next_time() -> None:
    world = World(disk("/d"))
    world.append(3)
    world.tick(FIRST_MS)
    assert world.segments() == 3
    topic = world.broker.topics.get("t")
    world.broker.topic_changes.configure(topic, lambda known: {**known, "retention.ms": "1"})
    world.tick(INTERVAL_MS)
    assert world.segments() == 1


def test_a_log_that_the_cleaner_holds_is_left_alone() -> None:
    world = World(disk("/d"), partitions=2, retention_ms="1000")
    world.append(3)
    world.append(3, partition=1)
    world.begin_cleaning()
    world.tick(FIRST_MS)
    assert (world.segments(0), world.segments(1)) == (3, 1)


def test_a_future_timestamp_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(disk("/d"), retention_ms="1000")
    world.append(1, timestamp_ms=NOW_MS + 24 * HOUR)
    world.append(3)
    with caplog.at_level(logging.WARNING):
        world.tick(FIRST_MS)
        world.tick(INTERVAL_MS)
    assert world.segments() == 4
    (message,) = caplog.messages
    assert message == (
        "t-0: 00000000000000000000.log has a timestamp in the future, 2023-11-15 22:13:20 UTC: it "
        "stays until 2023-11-15 22:13:21 UTC, and all after it; delete its records "
        "(ottla delete-records, before offset 1) or set retention.bytes, and "
        "message.timestamp.after.max.ms so that none such comes again"
    )


def test_the_new_start_is_on_the_disk_before_a_file_goes() -> None:
    file_system = FaultyFileSystem(disk("/d"))
    world = World(file_system, retention_ms="1000")  # type: ignore[arg-type]
    world.append(3)
    made = len(file_system.calls)
    world.tick(FIRST_MS)
    calls = [(one.kind, one.path) for one in file_system.calls[made:]]
    first_rename = next(
        number for number, (kind, path) in enumerate(calls)
        if kind is IoKind.RENAME and path.endswith(".log")
    )  # fmt: skip
    written = calls.index((IoKind.RENAME, "/d/log-start-offset-checkpoint.tmp"))
    assert calls[written + 1] == (IoKind.SYNC_DIRECTORY, "/d")
    assert written + 1 < first_rename


def test_deleted_records_files_go_too() -> None:
    world = World(disk("/d"), retention_ms="-1")
    world.append(4)
    world.broker.admin.delete_records({("t", 0): 3})
    assert world.segments() == 4
    world.tick(FIRST_MS)
    assert world.segments() == 1


def test_a_topic_deleted_meanwhile_takes_its_retired_files_with_it() -> None:
    world = World(disk("/d"), retention_ms="1000")
    world.append(3)
    world.tick(FIRST_MS)
    world.broker.admin.delete_topic(world.broker.topics.get("t"))
    world.tick(DELAY_MS)
    assert not world.broker.directories[0].is_offline


@pytest.mark.slow
@pytest.mark.parametrize("effect", [Effect.BEFORE, Effect.AFTER])
def test_a_disk_that_fails_at_any_call_takes_the_directory_offline_and_nothing_else(
    effect: Effect,
) -> None:
    def begun(file_system: FaultyFileSystem) -> World:
        world = World(file_system, retention_ms="1000", file_delete_delay_ms="0")  # type: ignore[arg-type]
        world.append(3)
        return world

    probe = FaultyFileSystem(disk("/d"))
    world = begun(probe)
    first = len(probe.calls)
    world.tick(FIRST_MS)
    world.tick(1)
    for at_call in range(first, len(probe.calls)):
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "broken"), effect=effect)
        file_system = FaultyFileSystem(disk("/d"), plan)
        world = begun(file_system)
        world.tick(FIRST_MS)
        world.tick(1)
        kind = probe.calls[at_call].kind
        had_nothing = kind in (IoKind.REMOVE, IoKind.RENAME) and effect is Effect.AFTER
        assert world.broker.directories[0].is_offline or had_nothing


def test_an_unclean_stop_after_it_brings_nothing_back() -> None:
    file_system = disk("/d")
    world = World(file_system, retention_ms="1000")
    world.append(4)
    world.tick(FIRST_MS)
    for mode in (CrashMode.STRICT, CrashMode.KEEP):
        broker: Broker = open_broker(file_system.crash(mode))
        log = broker.topics.partition("t", 0).log
        assert (log.log_start_offset, log.log_end_offset) == (4, 4)


@pytest.mark.parametrize("mode", [CrashMode.STRICT, CrashMode.KEEP])
@pytest.mark.parametrize(("slices", "start"), [(1, 2), (2, 4), (3, 6), (4, 7)])
def test_a_crash_between_two_moves_of_a_start_brings_no_record_back(
    monkeypatch: pytest.MonkeyPatch, slices: int, start: int, mode: CrashMode
) -> None:
    monkeypatch.setattr(retention, "PLANNED_PER_SLICE", 2)
    file_system = disk("/d")
    world = World(file_system, retention_ms="1000")
    world.append(7)
    at = Timestamps(now_ms=NOW_MS + HOUR, monotonic_ms=0.0)
    for number in range(slices):
        assert world.broker.log_jobs.retention.run_slice(at) == (number < 3)
    broker: Broker = open_broker(file_system.crash(mode))
    assert broker.topics.partition("t", 0).log.log_start_offset == start


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_the_starts_of_many_logs_are_written_in_steps_before_a_segment_goes(
    monkeypatch: pytest.MonkeyPatch, is_overtaken: bool
) -> None:
    monkeypatch.setattr(log_checkpoints, "LOGS_PER_STEP", 1)
    at = Timestamps(now_ms=NOW_MS + HOUR, monotonic_ms=0.0)
    for slices, mode in product(range(1, 6), (CrashMode.STRICT, CrashMode.KEEP)):
        world = World(disk("/d"), partitions=2, retention_ms="1000")
        world.append(4)
        for number in range(slices):
            has_more = world.broker.log_jobs.retention.run_slice(at)
            if is_overtaken and number == 0:
                world.broker.directories[0].checkpoints.write_log_starts()
        assert (bool(world.files(".deleted")), has_more) == (slices == 5, slices < 5)
        broker: Broker = open_broker(world.file_system.crash(mode))
        start = broker.topics.partition("t", 0).log.log_start_offset
        assert start == (4 if is_overtaken or slices > 3 else 0)


def test_a_log_that_goes_or_is_cleaned_between_two_slices_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "SEGMENTS_PER_SLICE", 1)
    world = World(disk("/d"), partitions=2, retention_ms="1000")
    for partition in range(2):
        world.append(4, partition=partition)
    world.tick(FIRST_MS)
    world.begin_cleaning()
    while world.broker.scheduler.next_job_ms == world.now_ms:
        world.tick(0)
    log = world.broker.topics.partition("t", 0).log
    assert (world.segments(0), world.segments(1)) == (4, 1)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    world.end_cleaning()
    world.tick(INTERVAL_MS)
    while world.broker.scheduler.next_job_ms == world.now_ms:
        world.tick(0)
    assert world.segments(0) == 1


@pytest.mark.slow
def test_the_starts_of_many_segments_are_written_down_once() -> None:
    file_system = FaultyFileSystem(disk("/d"))
    world = World(file_system, retention_ms="1000")  # type: ignore[arg-type]
    world.append(250)
    made = len(file_system.calls)
    at = Timestamps(now_ms=NOW_MS + HOUR, monotonic_ms=0.0)
    while world.broker.log_jobs.retention.run_slice(at):
        pass
    assert world.segments() == 1
    calls = [(one.kind, one.path) for one in file_system.calls[made:]]
    assert calls.count((IoKind.RENAME, "/d/log-start-offset-checkpoint.tmp")) == 1
    assert calls.count((IoKind.SYNC_DIRECTORY, "/d/t-0")) <= 4


def test_a_log_that_fails_keeps_retention_from_no_other_and_each_cause_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(disk("/d"), partitions=2, retention_ms="1000")
    for partition in range(2):
        world.append(3, partition=partition)
    at = Timestamps(now_ms=NOW_MS + HOUR, monotonic_ms=0.0)
    failing = world.broker.topics.partition("t", 0).log
    begin_retention = storage_retention.begin_retention

    def fail(log: PartitionLog, *others: Any) -> Any:
        if log is failing:
            raise ValueError("no luck")
        return begin_retention(log, *others)

    with monkeypatch.context() as patch:
        patch.setattr(storage_retention, "begin_retention", fail)
        for _ in range(3):
            while world.broker.log_jobs.retention.run_slice(at):
                pass
    assert (world.segments(0), world.segments(1)) == (3, 1)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == [
        "t-0: retention skips it: no luck; ottla log check"
    ]
    while world.broker.log_jobs.retention.run_slice(at):
        pass
    assert world.segments(0) == 1


def test_a_tiered_log_is_rolled_and_keeps_what_the_tier_does_not_have() -> None:
    world = World(disk("/d"))
    overrides = {"remote.storage.enable": "true", "local.retention.ms": "1000"}
    record_settings(world.broker, "t", overrides)
    log = world.broker.topics.partition("t", 0).log
    world.append(3)
    world.tick(FIRST_MS)
    assert (world.segments(), log.segments.active.size) == (4, 0)
    log.writer.flush()
    log.offsets.highest_remote_offset = 1
    world.tick(INTERVAL_MS)
    assert (log.log_start_offset, log.local_start_offset, world.segments()) == (0, 2, 2)
    reasons = world.broker.log_jobs.retention.totals.segments
    assert sum(reasons.values()) == 2
    world.broker.close()
    again = open_broker(world.file_system).topics.partition("t", 0).log
    assert (again.log_start_offset, again.local_start_offset) == (0, 2)


def test_a_broker_without_a_tier_names_the_topics_that_have_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(disk("/d"))
    overrides = world.broker.topics.get("t").overrides
    record_settings(world.broker, "t", {**overrides, "remote.storage.enable": "true"})
    world.append(3)
    world.broker.close()
    caplog.clear()
    world.broker = open_broker(world.file_system)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert "remote.storage.enable is true for topic t, and this broker has no tier" in line
    assert "set remote.log.storage.system.enable=true" in line
    world.now_ms = 0
    world.tick(0)
    world.tick(24 * HOUR)
    assert world.broker.topics.partition("t", 0).log.log_start_offset == 0
