"""A partition that moves to another log directory while it is written to."""

import errno
from contextlib import suppress

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import NOW_MS, at, batch, disk
from tests.support.logs import values
from tests.support.moving import (
    finish_moves,
    move,
    numbered,
    opened,
    partition_names,
    partition_of,
    pass_time,
    place_of,
    produce,
)

DELAY_MS = 60_000


def remove_tree(file_system: FakeFileSystem, path: str) -> None:
    for name in file_system.list(path):
        file_system.remove(f"{path}/{name}")
    file_system.remove_directory(path)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d", "/e", "/f")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    """With a topic t of one partition, which lies in /d."""
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    return broker


def refusal(broker: Broker, path: str, index: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        broker.log_jobs.moves.request("t", index, path)
    return caught.value.code


def bytes_of(log: PartitionLog) -> bytes:
    return b"".join(one.log.read(0, one.log.size) for one in log.segments.values)


def test_a_partition_moves_with_all_its_records(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(20))
    before = bytes_of(partition_of(broker).log)
    move(broker)
    log = partition_of(broker).log
    assert place_of(broker) == "/e"
    assert values(log) == numbered(20)
    assert bytes_of(log) == before
    assert log.directory == "/e/t-0"
    assert partition_names(file_system, "/e") == ["t-0"]
    (left,) = partition_names(file_system, "/d")
    assert left.endswith("-delete")


def test_the_log_continues_where_it_is_now(broker: Broker, file_system: FakeFileSystem) -> None:
    produce(broker, *numbered(5))
    move(broker)
    produce(broker, *numbered(15, first=5))
    assert values(partition_of(broker).log) == numbered(20)
    for mode in (CrashMode.KEEP, CrashMode.STRICT):
        again = opened(file_system.crash(mode))
        assert place_of(again) == "/e"
        found = values(partition_of(again).log)
        assert found == numbered(len(found))
        assert len(found) == (20 if mode is CrashMode.KEEP else len(found))
        assert len(found) >= 5


def test_what_is_appended_during_a_move_moves_too(broker: Broker) -> None:
    produce(broker, *numbered(10))
    broker.log_jobs.moves.request("t", 0, "/e")
    for number in range(10, 500):
        produce(broker, b"%d" % number)
        pass_time(broker)
        if not broker.log_jobs.moves:
            break
    assert place_of(broker) == "/e"
    assert values(partition_of(broker).log) == numbered(number + 1)


def test_an_append_of_the_same_round_is_in_though_nobody_has_written_it_out(
    broker: Broker,
) -> None:
    broker.appends.append(broker.topics.partition("t", 0), batch(b"0"), now_ms=NOW_MS)
    broker.log_jobs.moves.request("t", 0, "/e")
    for _ in range(5):
        pass_time(broker)
        broker.appends.append(broker.topics.partition("t", 0), batch(b"more"), now_ms=NOW_MS)
    broker.appends.write_out()
    log = partition_of(broker).log
    assert place_of(broker) == "/e"
    assert values(log) == [b"0", *[b"more"] * 5]


def test_the_files_that_were_left_behind_go_after_the_delay_and_can_be_read_until_then(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(3))
    log = partition_of(broker).log
    data = log.segments.first.log.slice(0, log.segments.first.size)
    content = data.read()
    move(broker)
    broker.scheduler.run_due(at(1e9))
    assert data.read() == content
    for _ in range(20):
        broker.scheduler.run_due(at(1e9 + DELAY_MS))
    assert partition_names(file_system, "/d") == []
    with pytest.raises(OSError, match="Bad file"):
        data.read()


def test_a_move_to_where_the_partition_is_gives_the_move_up(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    assert [name[-7:] for name in partition_names(file_system, "/e")] == ["-future"]
    broker.log_jobs.moves.request("t", 0, "/d/")
    assert not broker.log_jobs.moves
    assert [name[-7:] for name in partition_names(file_system, "/e")] == ["-delete"]
    produce(broker, b"40")
    assert place_of(broker) == "/d"
    assert values(partition_of(broker).log) == numbered(41)


def test_a_move_that_is_sent_elsewhere_begins_again(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    move(broker, "/f")
    assert place_of(broker) == "/f"
    assert values(partition_of(broker).log) == numbered(40)
    assert [name[-7:] for name in partition_names(file_system, "/e")] == ["-delete"]


def test_a_move_may_be_asked_for_twice(broker: Broker, file_system: FakeFileSystem) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    names = partition_names(file_system, "/e")
    broker.log_jobs.moves.request("t", 0, "/e")
    assert partition_names(file_system, "/e") == names


def test_moves_that_cannot_be_are_refused(broker: Broker) -> None:
    assert refusal(broker, "/g") is ErrorCode.LOG_DIR_NOT_FOUND
    assert refusal(broker, "/e", index=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.directories[1].health.fail(OSError(errno.EIO, "broken"))
    assert refusal(broker, "/e") is ErrorCode.KAFKA_STORAGE_ERROR
    broker.directories[0].health.fail(OSError(errno.EIO, "broken"))
    assert refusal(broker, "/f") is ErrorCode.KAFKA_STORAGE_ERROR


def test_moves_take_turns_and_all_end(broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="u", partition_count=3))
    for index in range(3):
        broker.appends.append(
            broker.topics.partition("u", index), batch(b"%d" % index), now_ms=NOW_MS
        )
    broker.appends.write_out()
    targets = {}
    for index, partition in broker.topics.get("u").partitions.items():
        targets[index] = "/e" if partition.directory.path == "/f" else "/f"
        broker.log_jobs.moves.request("u", index, targets[index])
    for _ in range(50):
        pass_time(broker)
    partitions = broker.topics.get("u").partitions
    assert {index: one.directory.path for index, one in partitions.items()} == targets
    assert [values(one.log) for one in partitions.values()] == [[b"0"], [b"1"], [b"2"]]


def test_a_rate_is_kept_and_none_stops_the_copying(file_system: FakeFileSystem) -> None:
    broker = opened(file_system, replica_alter_log_dirs_io_max_bytes_per_second="1000")
    broker.admin.create_topic(NewTopic(name="t"))
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    broker.scheduler.run_due(at(0.0))
    copied = broker.directories[1].futures["t", 0].size
    assert broker.log_jobs.moves._next_step.next_deadline_ms == copied
    broker.scheduler.run_due(at(copied - 1.0))
    assert broker.directories[1].futures["t", 0].size == copied


def test_the_cleaner_may_have_the_end_of_a_move_wait(broker: Broker) -> None:
    produce(broker, *numbered(20))
    key, log = TopicPartition("t", 0), partition_of(broker).log
    broker.log_jobs.access.begin_cleaning(key, log, lambda: None)
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker, 20)
    assert place_of(broker) == "/d"
    broker.log_jobs.access.end_cleaning(key, log)
    pass_time(broker, 20)
    assert place_of(broker) == "/e"


def test_with_a_flusher_the_copy_is_flushed_by_it_before_it_counts(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    broker.log_jobs.moves.leave_flushing()
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    for _ in range(20):
        pass_time(broker)
    future = broker.directories[1].futures["t", 0]
    assert future.offsets.recovery_point < future.log_end_offset
    for directory, plan in broker.log_jobs.flushes.due(NOW_MS):
        assert directory.path in ("/d", "/e")
        plan.carry_out(file_system)
        plan.owner.finish_flush(plan, NOW_MS)
    pass_time(broker, 3)
    assert place_of(broker) == "/e"
    again = opened(file_system.crash(CrashMode.STRICT))
    assert values(partition_of(again).log) == numbered(40)


def test_a_flush_that_was_planned_before_the_end_of_a_move_counts_for_nothing(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(3))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    broker.log_jobs.moves.leave_flushing()
    pass_time(broker)
    plans = [
        plan for directory, plan in broker.log_jobs.flushes.due(NOW_MS) if directory.path == "/e"
    ]
    broker.log_jobs.moves.leave_flushing(to_others=False)
    move(broker)
    produce(broker, *numbered(3, first=3))
    log = partition_of(broker).log
    known = log.offsets.recovery_point
    for plan in plans:
        plan.carry_out(file_system)
        plan.owner.finish_flush(plan, NOW_MS)
    assert log.offsets.recovery_point == known


# Restarts and failures


def test_a_move_continues_after_a_restart_from_where_it_was(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    copied = broker.directories[1].futures["t", 0].log_end_offset
    assert 0 < copied < 40
    broker.close()
    after = file_system.crash(CrashMode.KEEP)
    again = opened(after)
    assert again.directories[1].futures["t", 0].log_end_offset == copied
    produce(again, b"40")
    finish_moves(again)
    assert place_of(again) == "/e"
    assert values(partition_of(again).log) == numbered(41)


def test_a_copy_that_knows_more_than_its_log_after_a_power_failure_is_cut(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    for _ in range(30):
        if broker.log_jobs.moves:
            pass_time(broker)
            for future in broker.directories[1].futures.values():
                future.writer.flush()
        if len(broker.directories[1].futures.values()) and (
            broker.directories[1].futures["t", 0].log_end_offset > 10
        ):
            break
    after = file_system.crash(CrashMode.STRICT)
    again = opened(after)
    end = partition_of(again).log.log_end_offset
    assert end < 10
    assert again.directories[1].futures["t", 0].log_end_offset <= end
    produce(again, *[b"other"] * 20)
    finish_moves(again)
    assert values(partition_of(again).log) == [*numbered(end), *[b"other"] * 20]


def test_a_topic_is_deleted_with_its_copies(broker: Broker, file_system: FakeFileSystem) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    broker.admin.delete_topic(broker.topics.get("t"))
    pass_time(broker, 3)
    assert not broker.log_jobs.moves
    for path in ("/d", "/e"):
        assert [name[-7:] for name in partition_names(file_system, path)] == ["-delete"]
    broker.admin.create_topic(NewTopic(name="t"))
    produce(broker, b"new")
    move(broker, "/e" if place_of(broker) != "/e" else "/f")
    assert values(partition_of(broker).log) == [b"new"]


def test_a_damaged_batch_ends_the_move_and_the_partition_stays(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, *numbered(20))
    segment = partition_of(broker).log.segments.values[1]
    content = segment.log.read(0, segment.size)
    file = broker.directories[0]._file_system.open(segment.log.path, writable=True)
    file.pwrite(bytes([content[-1] ^ 1]), segment.size - 1)
    move(broker)
    assert place_of(broker) == "/d"
    assert "t-0 cannot be moved to /e" in caplog.text


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_copy_whose_directory_is_removed_ends_the_move_and_nothing_else(
    broker: Broker,
    file_system: FakeFileSystem,
    caplog: pytest.LogCaptureFixture,
    is_copied: bool,
) -> None:
    produce(broker, *numbered(20))
    broker.log_jobs.moves.request("t", 0, "/e")
    if is_copied:
        broker.log_jobs.moves._access.may_replace = lambda _: False  # type: ignore[method-assign]
        pass_time(broker, 20)
        del broker.log_jobs.moves._access.may_replace
    remove_tree(file_system, f"/e/{partition_names(file_system, '/e')[0]}")
    finish_moves(broker)
    assert not [one for one in broker.directories if one.is_offline]
    assert place_of(broker) == "/d"
    assert partition_names(file_system, "/d") == ["t-0"]
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert line.startswith("t-0 cannot be moved to /e: /e/t-0.")
    produce(broker, *numbered(5, first=20))
    assert values(partition_of(broker).log) == numbered(25)
    move(broker)
    assert place_of(broker) == "/e"
    assert values(partition_of(opened(file_system.crash(CrashMode.STRICT))).log) == numbered(25)


@pytest.mark.slow
@pytest.mark.parametrize("failing", ["/d", "/e"])
def test_a_directory_that_fails_at_any_call_of_a_move_loses_nothing(failing: str) -> None:
    probe = FaultyFileSystem(disk("/d", "/e", "/f"))
    with_move(probe)
    calls = [number for number, call in enumerate(probe.calls) if call.path.startswith(failing)]
    first = next(n for n, call in enumerate(probe.calls) if "-future" in call.path)
    for at_call in (number for number in calls if number >= first):
        under = disk("/d", "/e", "/f")
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "a fault"), is_lasting=False)
        broker = with_move(FaultyFileSystem(under, plan))
        partition = partition_of(broker)
        is_served = not partition.directory.is_offline
        if failing == "/e" and partition.log.directory.startswith("/d"):
            assert is_served
        if is_served:
            assert values(partition.log) == numbered(8)
        again = opened(under.crash(CrashMode.KEEP))
        assert values(partition_of(again).log) == numbered(8), at_call
        finish_moves(again)
        assert values(partition_of(again).log) == numbered(8), at_call


def with_move(file_system: FaultyFileSystem) -> Broker:
    """A broker that has tried to move its partition to /e; what the disk refuses it leaves."""
    broker = opened(file_system, log_index_size_max_bytes="120")
    broker.admin.create_topic(NewTopic(name="t"))
    produce(broker, *numbered(8))
    with suppress(ApiError):
        broker.log_jobs.moves.request("t", 0, "/e")
    for _ in range(40):
        pass_time(broker)
    assert not broker.log_jobs.moves
    return broker
