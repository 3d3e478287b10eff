"""Calls that change a disk are kept, in order, and none of the others."""

from ottla.base.files import replace_file
from ottla.testing import FakeFileSystem, IoCall, IoKind, RecordingFileSystem


def test_a_replacement_of_a_small_file_is_six_calls_in_this_order() -> None:
    system = RecordingFileSystem(FakeFileSystem())
    replace_file(system, "a", b"12345")
    assert system.calls == [
        IoCall(kind=IoKind.CREATE, path="a.tmp"),
        IoCall(kind=IoKind.TRUNCATE, path="a.tmp"),
        IoCall(kind=IoKind.PWRITE, path="a.tmp", size=5),
        IoCall(kind=IoKind.SYNC, path="a.tmp"),
        IoCall(kind=IoKind.RENAME, path="a.tmp", target="a"),
        IoCall(kind=IoKind.SYNC_DIRECTORY, path="."),
    ]


def test_places_and_sizes_are_kept() -> None:
    system = RecordingFileSystem(FakeFileSystem())
    file = system.open("a", create=True)
    file.pwritev([b"12", b"345"], 7)
    file.truncate(9)
    assert system.calls[1:] == [
        IoCall(kind=IoKind.PWRITEV, path="a", position=7, size=5),
        IoCall(kind=IoKind.TRUNCATE, path="a", size=9),
    ]


def test_a_file_has_the_path_it_was_renamed_to() -> None:
    system = RecordingFileSystem(FakeFileSystem())
    file = system.open("a", create=True)
    system.rename("a", "b")
    file.renamed("b")
    file.sync()
    assert system.calls[-1] == IoCall(kind=IoKind.SYNC, path="b")


def test_directories_and_removals_are_calls() -> None:
    system = RecordingFileSystem(FakeFileSystem())
    system.make_directory("d/e")
    system.open("d/a", create=True)
    system.remove("d/a")
    system.remove_directory("d/e")
    assert [(call.kind, call.path) for call in system.calls] == [
        (IoKind.MAKE_DIRECTORY, "d/e"),
        (IoKind.CREATE, "d/a"),
        (IoKind.REMOVE, "d/a"),
        (IoKind.REMOVE_DIRECTORY, "d/e"),
    ]


def test_what_changes_nothing_is_not_a_call() -> None:
    inner = FakeFileSystem()
    inner.open("a", create=True).pwrite(b"1", 0)
    inner.open(".lock", create=True)
    system = RecordingFileSystem(inner)
    file = system.open("a", create=True)
    file.pread(1, 0)
    file.size()
    file.map(1).release()
    file.close()
    system.list(".")
    system.status("a")
    lock = system.lock(".lock")
    assert lock is not None
    lock.release()
    assert system.calls == []


def test_a_lock_that_makes_its_file_is_a_call() -> None:
    system = RecordingFileSystem(FakeFileSystem())
    assert system.lock(".lock") is not None
    assert system.calls == [IoCall(kind=IoKind.CREATE, path=".lock")]
