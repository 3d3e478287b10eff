"""Whether the system has been started since a broker opened a directory, and the logs' ends."""

from pathlib import Path

import pytest

from ottla.base.files import FileSystem, OsFileSystem, join, write_file
from ottla.storage.files.boot_note import (
    UNNOTED,
    BootNote,
    WrittenEnds,
    is_same_boot,
    read_boot_note,
)
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.testing import CrashMode, FakeFileSystem


def directory() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("/d")
    disk.sync_directory("/")
    return disk


def noted() -> FakeFileSystem:
    disk = directory()
    BootNote(disk, "/d", {})
    return disk


def ends_in(file_system: FileSystem, path: str = "/d") -> WrittenEnds:
    found = read_boot_note(file_system, path)
    assert found is not None
    return found


def test_a_broker_that_was_killed_finds_the_note_of_the_same_boot() -> None:
    disk = noted()
    assert is_same_boot(disk, "/d")
    assert is_same_boot(disk.crash(CrashMode.KEEP), "/d")


def test_after_a_power_failure_no_note_is_of_this_boot() -> None:
    for mode in set(CrashMode) - {CrashMode.KEEP}:
        after = noted().crash(mode)
        assert not is_same_boot(after, "/d")
        BootNote(after, "/d", {})
        assert is_same_boot(after, "/d")


def test_without_a_readable_note_nothing_is_known() -> None:
    disk = directory()
    assert not is_same_boot(disk, "/d")
    write_file(disk, join("/d", BOOT_NOTE), [b"garbage"])
    assert not is_same_boot(disk, "/d")
    disk.remove(join("/d", BOOT_NOTE))
    disk.make_directory(join("/d", BOOT_NOTE))
    note = BootNote(disk, "/d", {"a-0": 1})
    assert note.place("b-0", 1) is UNNOTED
    assert not is_same_boot(disk, "/d")
    assert disk.list("/d") == [BOOT_NOTE]


@pytest.mark.parametrize("is_real", [False, True], ids=["in memory", "on the disk"])
def test_the_end_of_each_log_is_found_after_a_kill(is_real: bool, tmp_path: Path) -> None:
    files: FileSystem = OsFileSystem() if is_real else directory()
    path = str(tmp_path) if is_real else "/d"
    note = BootNote(files, path, {"old-0": 7, "old-1": 0})
    places = {f"new-{number}": note.place(f"new-{number}", number) for number in range(700)}
    note.place("old-0", 7).store(8)
    for number, place in enumerate(places.values()):
        place.store(2 * number + 1)
    found = ends_in(files, path)
    assert (found.of("old-0"), found.of("old-1"), found.of("unknown-0")) == (8, 0, 0)
    assert [found.of(name) for name in places] == list(range(1, 1401, 2))


def test_an_end_that_is_noted_by_halves_counts_as_the_smaller() -> None:
    disk = directory()
    note = BootNote(disk, "/d", {"a-0": 5})
    for number in range(3):
        place = note.place("a-0", 5)
        place.numbers[place.at + number % 2] = 9
        assert ends_in(disk).of("a-0") == 5


@pytest.mark.slow
def test_a_removed_log_is_forgotten_and_its_place_is_used_again() -> None:
    disk = directory()
    note = BootNote(disk, "/d", {"a-0": 5})
    for number in range(1000):
        note.place(f"b-{number}", 3)
        assert ends_in(disk).of(f"b-{number}") == 3
        note.remove(f"b-{number}")
        assert ends_in(disk).of(f"b-{number}") == 0
    assert ends_in(disk).of("a-0") == 5
    size = disk.open(join("/d", BOOT_NOTE)).size()
    assert size < 20_000


@pytest.mark.slow
def test_a_note_that_is_cut_anywhere_names_no_wrong_end() -> None:
    disk = directory()
    ends = {f"a-{number}": number + 1 for number in range(5)}
    BootNote(disk, "/d", ends)
    for size in range(disk.open(join("/d", BOOT_NOTE)).size(), 0, -1):
        disk.open(join("/d", BOOT_NOTE), writable=True).truncate(size)
        found = read_boot_note(disk, "/d")
        assert found is None or all(found.of(name) in (0, end) for name, end in ends.items())
