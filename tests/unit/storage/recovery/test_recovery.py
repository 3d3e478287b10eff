"""What a log is after its files were damaged: a table of (damage, what must survive)."""

from collections.abc import Callable

import pytest

from ottla.base.files import join, remove_if_present
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import (
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    append,
    fill,
    open_directory,
    open_log,
    values,
)

PARTITION = "data/t-0"


def files(file_system: FakeFileSystem, ending: str) -> list[str]:
    names = file_system.list(PARTITION)
    return [f"{PARTITION}/{name}" for name in names if name.endswith(ending)]


def crashed_log(batches: int = 20) -> FakeFileSystem:
    """A disk as `kill -9` leaves it, with 2 * `batches` records in several segments."""
    file_system = FakeFileSystem()
    fill(open_log(file_system), batches)
    return file_system.crash(CrashMode.KEEP)


def tear_last_append(file_system: FakeFileSystem) -> None:
    """As a power failure does, after which the note of the boot is of another one."""
    file_system.remove(join(DIRECTORY, BOOT_NOTE))
    path = files(file_system, ".log")[-1]
    file = file_system.open(path, writable=True)
    file.truncate(file.size() - 1)
    file.close()


def append_nonsense(file_system: FakeFileSystem) -> None:
    path = files(file_system, ".log")[-1]
    file = file_system.open(path, writable=True)
    file.pwrite(b"nonsense" * 20, file.size())
    file.close()


def append_zeros(file_system: FakeFileSystem) -> None:
    path = files(file_system, ".log")[-1]
    file = file_system.open(path, writable=True)
    file.truncate(file.size() + 4096)
    file.close()


def remove_indexes(file_system: FakeFileSystem) -> None:
    for path in (*files(file_system, ".index"), *files(file_system, ".timeindex")):
        file_system.remove(path)


def garble_indexes(file_system: FakeFileSystem) -> None:
    for path in (*files(file_system, ".index"), *files(file_system, ".timeindex")):
        file = file_system.open(path, writable=True)
        file.pwrite(b"\x7f" * file.size(), 0)
        file.close()


def remove_snapshots(file_system: FakeFileSystem) -> None:
    for path in files(file_system, ".snapshot"):
        file_system.remove(path)


def garble_snapshots(file_system: FakeFileSystem) -> None:
    for path in files(file_system, ".snapshot"):
        file = file_system.open(path, writable=True)
        file.pwrite(b"\xff\xff", 0)
        file.close()


def leave_temporary_files(file_system: FakeFileSystem) -> None:
    for name in ("00000000000000000000.log.deleted", "00000000000000000004.log.cleaned"):
        file_system.open(f"{PARTITION}/{name}", create=True).close()


def leave_an_orphaned_index(file_system: FakeFileSystem) -> None:
    file_system.open(f"{PARTITION}/00000000000000009999.index", create=True).close()


def remove_epochs(file_system: FakeFileSystem) -> None:
    remove_if_present(file_system, f"{PARTITION}/leader-epoch-checkpoint")


def garble_checkpoints(file_system: FakeFileSystem) -> None:
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        file = file_system.open(f"data/{name}", create=True)
        file.pwrite(b"garbage\n", 0)
        file.close()


DAMAGES: list[tuple[Callable[[FakeFileSystem], None], int]] = [
    (tear_last_append, 38),
    (append_nonsense, 40),
    (append_zeros, 40),
    (remove_indexes, 40),
    (garble_indexes, 40),
    (remove_snapshots, 40),
    (garble_snapshots, 40),
    (leave_temporary_files, 40),
    (leave_an_orphaned_index, 40),
    (remove_epochs, 40),
    (garble_checkpoints, 40),
]


@pytest.mark.parametrize(("damage", "kept"), DAMAGES, ids=lambda one: getattr(one, "__name__", one))
def test_damage_costs_no_more_than_the_torn_batch(
    damage: Callable[[FakeFileSystem], None], kept: int
) -> None:
    file_system = crashed_log()
    damage(file_system)
    log = open_log(file_system)
    assert values(log) == [b"%d" % offset for offset in range(kept)]
    for offset in range(kept):
        assert values(log, offset) == [b"%d" % one for one in range(offset, kept)]
    fill(log, 3)
    assert log.log_end_offset == kept + 6
    assert log.epochs.latest_epoch == 0
    left = [name for name in file_system.list(PARTITION) if name.endswith((".deleted", ".cleaned"))]
    assert left == []


def test_segments_after_a_damaged_one_are_kept_unless_the_system_was_started_again() -> None:
    file_system = crashed_log()
    file = file_system.open(files(file_system, ".log")[2], writable=True)
    file.pwrite(b"\xff", file.size() - 1)
    log = open_log(file_system)
    assert log.log_end_offset == 40
    assert values(log, 39) == [b"39"]


def test_segments_after_a_damaged_one_are_dropped_after_a_power_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = crashed_log()
    file_system.remove(join(DIRECTORY, BOOT_NOTE))
    middle = files(file_system, ".log")[2]
    file = file_system.open(middle, writable=True)
    file.pwrite(b"\xff", file.size() - 1)
    file.close()
    log = open_log(file_system)
    end = log.log_end_offset
    assert 0 < end < 40
    assert values(log) == [b"%d" % offset for offset in range(end)]
    assert log.segments.active.log.path == middle
    said = f"{middle}: up to {40 - end - 2} sound records after the damage, at offsets {end + 2} to"
    assert f"{said} 39, are dropped with it" in caplog.text


def test_recovering_twice_changes_nothing() -> None:
    file_system = crashed_log()
    tear_last_append(file_system)
    first = open_log(file_system)
    once = {path: snapshot(first, path) for path in ("log", "epochs", "producers")}
    second = open_log(file_system.crash(CrashMode.KEEP))
    assert {path: snapshot(second, path) for path in once} == once


def snapshot(log: PartitionLog, what: str) -> object:
    match what:
        case "log":
            return [(one.base_offset, one.size, one.largest) for one in log.segments.values]
        case "epochs":
            return log.epochs.entries
        case _:
            return log.producers.entries


def test_a_clean_stop_needs_no_recovery_and_leaves_trimmed_files() -> None:
    file_system = FakeFileSystem()
    directory = open_directory(file_system)
    log = directory.create_log("t", 0, b"0123456789abcdef")  # type: ignore[arg-type]
    fill(log, 20)
    directory.close()
    assert ".kafka_cleanshutdown" in file_system.list("data")
    sizes = [
        file_system.open(path).size()
        for path in files(file_system, ".index")
        if INTEGRITY not in path
    ]
    assert all(size < 240 for size in sizes)
    again = open_directory(file_system)
    assert ".kafka_cleanshutdown" not in file_system.list("data")
    reopened = again.logs["t", 0]
    assert reopened.offsets.recovery_point == 40
    assert values(reopened) == [b"%d" % offset for offset in range(40)]


def test_producers_are_known_again_after_a_crash() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    for sequence in range(12):
        append(log, b"x" * 60, producer_id=7, producer_epoch=0, base_sequence=sequence)
    again = open_log(file_system.crash(CrashMode.KEEP))
    retry = append(again, b"x" * 60, producer_id=7, producer_epoch=0, base_sequence=11)
    assert (retry.first_offset, retry.size) == (11, 0)
    assert append(again, b"y", producer_id=7, producer_epoch=0, base_sequence=12).first_offset == 12


def test_an_open_transaction_is_still_open_after_a_crash() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    fill(log, 10)
    append(log, b"t", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    fill(log, 10)
    again = open_log(file_system.crash(CrashMode.KEEP))
    assert (again.last_stable_offset, again.high_watermark) == (20, 41)


@pytest.mark.parametrize("seed", range(40))
def test_a_roll_after_the_last_flush_costs_no_time_that_can_be_searched_for(seed: int) -> None:
    """The ended segment's last time entry may not have reached the disk."""
    file_system = FakeFileSystem()
    directory = open_directory(file_system)
    log = directory.create_log("t", 0, TOPIC_ID)
    append(log, b"early", timestamp_ms=NOW_MS)
    append(log, b"late", timestamp_ms=NOW_MS + 9)
    log.writer.flush()
    log.writer.roll(NOW_MS)
    directory.checkpoints.write()
    again = open_log(file_system.crash(CrashMode.RANDOM, seed))
    found = again.reader.find_timestamp(NOW_MS + 1)
    assert found is not None
    assert found.offset == 1
    assert again.segments.first.largest.timestamp_ms == NOW_MS + 9


def test_where_an_emptied_log_continues_outlives_the_next_power_failure() -> None:
    """Its only segment's name tells the start, which the next checkpoint leaves out."""
    file_system = FakeFileSystem()
    directory = open_directory(file_system)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 3)
    log.maintenance.delete_records_before(6)
    directory.checkpoints.write()
    file_system = file_system.crash(CrashMode.STRICT)
    directory = open_directory(file_system)
    assert directory.logs["t", 0].log_start_offset == 6
    directory.checkpoints.write()
    assert open_log(file_system.crash(CrashMode.STRICT)).log_start_offset == 6


def test_indexes_that_a_start_rebuilt_outlive_the_next_power_failure() -> None:
    """All of their segment was flushed: once the log has rolled no later start looks at them."""
    file_system = FakeFileSystem()
    directory = open_directory(file_system)
    log = directory.create_log("t", 0, TOPIC_ID)
    for _ in range(4):
        append(log, b"value" * 5)
    log.writer.flush()
    directory.checkpoints.write()
    killed = file_system.crash(CrashMode.KEEP)
    log = open_directory(killed).logs["t", 0]
    assert log.segments.active.base_offset == 0
    assert log.segments.active.offset_index.entry_count
    log.writer.roll(NOW_MS)
    log.sync_directory()
    lost = killed.crash(CrashMode.STRICT)
    index = lost.open(files(lost, ".index")[0])
    assert index.pread(100, 0).rstrip(b"\0"), "entries are there"
