"""What is durable on a fake disk, and what else only a fake one does."""

import copy
import io

import pytest

from ottla.base.files import read_file, replace_file
from ottla.testing import CrashMode, FakeClock, FakeFileSystem
from ottla.testing.file_system import FakeFile


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


def written(disk: FakeFileSystem, path: str, content: bytes, *, sync: bool = True) -> FakeFile:
    file = disk.open(path, create=True)
    file.pwrite(content, 0)
    if sync:
        file.sync()
    return file


def after_power_failure(disk: FakeFileSystem) -> FakeFileSystem:
    """A look at what would be left; the disk itself continues."""
    return copy.deepcopy(disk).crash(CrashMode.STRICT)


def after_kill(disk: FakeFileSystem) -> FakeFileSystem:
    return copy.deepcopy(disk).crash(CrashMode.KEEP)


def test_content_and_name_are_durable_once_both_are_synced(disk: FakeFileSystem) -> None:
    written(disk, "a", b"1")
    disk.sync_directory(".")
    assert read_file(after_power_failure(disk), "a") == b"1"


def test_a_synced_file_without_a_synced_name_is_gone(disk: FakeFileSystem) -> None:
    written(disk, "a", b"1")
    assert after_power_failure(disk).list(".") == []


def test_a_synced_name_without_synced_content_is_empty(disk: FakeFileSystem) -> None:
    written(disk, "a", b"1", sync=False)
    disk.sync_directory(".")
    assert read_file(after_power_failure(disk), "a") == b""


def test_a_file_falls_back_to_its_last_sync(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"0123456789")
    disk.sync_directory(".")
    file.pwrite(b"ab", 2)
    file.pwritev([b"c", b"d"], 10)
    file.truncate(5)
    file.pwrite(b"e", 20)
    assert read_file(after_power_failure(disk), "a") == b"0123456789"


def test_a_sync_takes_every_earlier_change_in_order(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"0123456789")
    disk.sync_directory(".")
    file.pwrite(b"ab", 2)
    file.truncate(5)
    file.pwrite(b"e", 7)
    file.sync()
    file.pwrite(b"lost", 0)
    assert read_file(after_power_failure(disk), "a") == b"01ab4\0\0e"


def test_a_file_is_synced_through_any_opening_of_it(disk: FakeFileSystem) -> None:
    written(disk, "a", b"1", sync=False).close()
    disk.sync_directory(".")
    disk.open("a").sync()
    assert read_file(after_power_failure(disk), "a") == b"1"


def test_a_directory_is_gone_until_the_one_above_it_is_synced(disk: FakeFileSystem) -> None:
    disk.make_directory("d/e")
    written(disk, "d/e/a", b"1")
    disk.sync_directory("d/e")
    assert after_power_failure(disk).list(".") == []
    disk.sync_directory(".")
    assert after_power_failure(disk).list("d") == []
    disk.sync_directory("d")
    assert read_file(after_power_failure(disk), "d/e/a") == b"1"


def test_a_rename_without_a_sync_of_the_directory_is_undone(disk: FakeFileSystem) -> None:
    replace_file(disk, "a", b"old")
    written(disk, "a.tmp", b"new")
    disk.rename("a.tmp", "a")
    assert disk.list(".") == ["a"]
    after = after_power_failure(disk)
    assert after.list(".") == ["a"]
    assert read_file(after, "a") == b"old"


def test_a_rename_of_a_file_that_was_not_synced_can_lose_old_and_new(disk: FakeFileSystem) -> None:
    replace_file(disk, "a", b"old")
    written(disk, "a.tmp", b"new", sync=False)
    disk.rename("a.tmp", "a")
    disk.sync_directory(".")
    assert read_file(after_power_failure(disk), "a") == b""


def test_a_replaced_small_file_is_durable(disk: FakeFileSystem) -> None:
    for content in (b"old", b"new"):
        replace_file(disk, "a", content)
    after = after_power_failure(disk)
    assert after.list(".") == ["a"]
    assert read_file(after, "a") == b"new"


def test_a_rename_between_directories_is_never_half_done(disk: FakeFileSystem) -> None:
    for name in ("d", "e"):
        disk.make_directory(name)
    disk.sync_directory(".")
    for synced in ("d", "e"):
        written(disk, "d/a", synced.encode())
        disk.sync_directory("d")
        disk.rename("d/a", "e/a")
        before = after_power_failure(disk)
        assert before.list("d") == ["a"]
        disk.sync_directory(synced)
        after = after_power_failure(disk)
        assert (after.list("d"), after.list("e")) == ([], ["a"])
        assert read_file(after, "e/a") == synced.encode()


def test_a_rename_is_synced_with_the_earlier_changes_that_it_stands_on(
    disk: FakeFileSystem,
) -> None:
    for name in ("d", "e"):
        disk.make_directory(name)
    disk.sync_directory(".")
    written(disk, "d/a", b"1")
    disk.rename("d/a", "e/a")
    written(disk, "d/later", b"2")
    disk.sync_directory("e")
    after = after_power_failure(disk)
    assert (after.list("d"), after.list("e")) == ([], ["a"])


def test_a_removal_without_a_sync_of_the_directory_is_undone(disk: FakeFileSystem) -> None:
    replace_file(disk, "a", b"1")
    disk.make_directory("d")
    disk.sync_directory(".")
    disk.remove("a")
    disk.remove_directory("d")
    after = after_power_failure(disk)
    assert after.list(".") == ["a", "d"]
    assert read_file(after, "a") == b"1"
    disk.sync_directory(".")
    assert after_power_failure(disk).list(".") == []


def test_a_file_removed_while_open_is_synced_in_vain(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"1")
    disk.sync_directory(".")
    disk.remove("a")
    disk.sync_directory(".")
    file.pwrite(b"2", 0)
    file.sync()
    assert file.pread(1, 0) == b"2"
    assert after_power_failure(disk).list(".") == []


def test_what_a_power_failure_left_is_durable(disk: FakeFileSystem) -> None:
    written(disk, "a", b"1")
    disk.sync_directory(".")
    after = after_power_failure(disk)
    after.open("a", writable=True).pwrite(b"2", 1)
    assert read_file(after, "a") == b"12"
    assert read_file(after_power_failure(after), "a") == b"1"


def test_a_kill_loses_nothing_but_makes_nothing_durable_either(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"1")
    disk.sync_directory(".")
    file.pwrite(b"2", 1)
    written(disk, "b", b"3")
    after = after_kill(disk)
    assert after.list(".") == ["a", "b"]
    assert read_file(after, "a") == b"12"
    later = after_power_failure(after)
    assert later.list(".") == ["a"]
    assert read_file(later, "a") == b"1"


def test_a_process_that_was_killed_leaves_no_trace_in_its_successor(disk: FakeFileSystem) -> None:
    written(disk, "a", b"0123").close()
    view = disk.open("a").map(4)
    assert disk.lock(".lock") is not None
    after = after_kill(disk)
    after.open("a", writable=True).truncate(0)
    assert bytes(view) == b"0123"
    assert after.lock(".lock") is not None


def test_a_crashed_disk_can_crash_again_but_not_be_used(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"1")
    lock = disk.lock(".lock")
    assert lock is not None
    disk.crash(CrashMode.KEEP)
    for use in (
        lambda: disk.list("."),
        lambda: disk.status("a"),
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"2", 0),
        lambda: file.sync(),
    ):
        with pytest.raises(AssertionError, match="has crashed"):
            use()
    file.close()
    lock.release()
    assert read_file(disk.crash(CrashMode.KEEP), "a") == b"1"


def test_bytes_of_a_failed_sync_are_read_but_no_later_sync_saves_them(
    disk: FakeFileSystem,
) -> None:
    file = written(disk, "a", b"0123")
    disk.sync_directory(".")
    file.pwrite(b"ab", 4)
    file.fail_sync()
    file.pwrite(b"cd", 6)
    file.sync()
    assert read_file(after_kill(disk), "a") == b"0123abcd"
    assert read_file(after_power_failure(disk), "a") == b"0123\0\0cd"


def test_bytes_written_again_after_a_failed_sync_are_saved_by_the_next(
    disk: FakeFileSystem,
) -> None:
    file = written(disk, "a", b"0123")
    disk.sync_directory(".")
    file.pwrite(b"ab", 4)
    file.fail_sync()
    file.truncate(4)
    file.pwrite(b"ab", 4)
    file.sync()
    assert read_file(after_power_failure(disk), "a") == b"0123ab"


def test_a_cut_under_a_map_fails_the_test(disk: FakeFileSystem) -> None:
    file = written(disk, "a", b"0123456789")
    view = file.map(8)
    part = view[6:8]
    view.release()
    with pytest.raises(AssertionError, match=r"cut to 7 bytes under a map of 8.*SIGBUS"):
        file.truncate(7)
    assert file.size() == 10
    file.truncate(8)
    part.release()
    file.truncate(7)
    assert file.size() == 7


def test_a_fake_file_has_no_descriptor(disk: FakeFileSystem) -> None:
    with pytest.raises(io.UnsupportedOperation, match="a is in memory"):
        disk.open("a", create=True).fileno()


def test_modification_times_come_from_the_clock() -> None:
    clock = FakeClock(now_ms=1000)
    disk = FakeFileSystem(clock)
    disk.make_directory("d")
    clock.advance(1)
    file = disk.open("d/a", create=True)
    clock.advance(1)
    file.pwrite(b"1", 0)
    clock.advance(1)
    file.pread(1, 0)
    times = []
    for system in (disk, after_kill(disk)):
        times += [status.modified_ms for path in ("d", "d/a") if (status := system.status(path))]
    assert times == [1001, 1002, 1001, 1002]


def test_a_path_is_the_same_however_it_is_written(disk: FakeFileSystem) -> None:
    disk.make_directory("/d")
    written(disk, "d/a", b"1")
    for path in ("/d/a", "./d/a", "d//a", "d/../d/a"):
        assert read_file(disk, path) == b"1"


def test_the_root_stays(disk: FakeFileSystem) -> None:
    for use in (lambda: disk.remove_directory("/"), lambda: disk.rename(".", "d")):
        with pytest.raises(OSError):
            use()
    with pytest.raises(FileNotFoundError):
        disk.list("")
