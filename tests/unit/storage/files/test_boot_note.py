"""Whether the system has been started since a broker last opened a directory."""

from ottla.base.files import join, write_file
from ottla.storage.files.boot_note import is_same_boot, note_boot
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.testing import CrashMode, FakeFileSystem


def noted() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("/d")
    disk.sync_directory("/")
    note_boot(disk, "/d")
    return disk


def test_a_broker_that_was_killed_finds_the_note_of_the_same_boot() -> None:
    disk = noted()
    assert is_same_boot(disk, "/d")
    assert is_same_boot(disk.crash(CrashMode.KEEP), "/d")


def test_after_a_power_failure_no_note_is_of_this_boot() -> None:
    for mode in set(CrashMode) - {CrashMode.KEEP}:
        after = noted().crash(mode)
        assert not is_same_boot(after, "/d")
        note_boot(after, "/d")
        assert is_same_boot(after, "/d")


def test_without_a_readable_note_nothing_is_known() -> None:
    disk = FakeFileSystem()
    disk.make_directory("/d")
    assert not is_same_boot(disk, "/d")
    write_file(disk, join("/d", BOOT_NOTE), [b"garbage"])
    assert not is_same_boot(disk, "/d")
    disk.remove(join("/d", BOOT_NOTE))
    disk.make_directory(join("/d", BOOT_NOTE))
    note_boot(disk, "/d")
    assert not is_same_boot(disk, "/d")
