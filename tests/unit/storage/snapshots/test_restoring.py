"""The notes of an exchange of several directories: what the next restore makes of them."""

from ottla.base.files import join, write_file
from ottla.storage.snapshots.restoring import (
    RestoringNote,
    finish,
    interrupted,
    read_note,
    remove_notes,
    write_notes,
)
from ottla.testing import FakeFileSystem

DIRECTORIES = ("/d", "/e")
COPIES = ("/d.before", "/e.before")
OLD = RestoringNote(kept="before", is_new=False)
NEW = RestoringNote(kept="before", is_new=True)


def disk_before_the_exchange() -> FakeFileSystem:
    """Two directories, and the copies that are to take their places."""
    disk = FakeFileSystem()
    for path in (*DIRECTORIES, *COPIES):
        disk.make_directory(path)
        content = b"new" if path in COPIES else b"old"
        write_file(disk, join(path, "content"), [content])
    write_notes(disk, DIRECTORIES, OLD)
    write_notes(disk, COPIES, NEW)
    return disk


def content_of(disk: FakeFileSystem, path: str) -> bytes:
    file = disk.open(join(path, "content"))
    return file.pread(100, 0)


def finished(disk: FakeFileSystem) -> list[str]:
    """Finishes the exchange; returns the places that keep the old content."""
    kept: list[str] = []
    finish(disk, DIRECTORIES, COPIES, kept.append)
    assert interrupted(disk, (*DIRECTORIES, *kept)) is None
    return kept


def test_a_note_is_read_as_it_was_written_and_gone_when_removed() -> None:
    disk = disk_before_the_exchange()
    assert [read_note(disk, one) for one in (*DIRECTORIES, *COPIES)] == [OLD, OLD, NEW, NEW]
    assert interrupted(disk, DIRECTORIES) == "before"
    remove_notes(disk, (*DIRECTORIES, *COPIES))
    assert [read_note(disk, one) for one in (*DIRECTORIES, *COPIES)] == [None] * 4


def test_an_exchange_that_had_not_begun_is_undone() -> None:
    disk = disk_before_the_exchange()
    assert finished(disk) == []
    assert [content_of(disk, one) for one in DIRECTORIES] == [b"old", b"old"]
    assert [disk.status(one) for one in COPIES] == [None, None]


def test_an_exchange_that_had_begun_is_finished() -> None:
    disk = disk_before_the_exchange()
    disk.exchange("/d", "/d.before")
    assert finished(disk) == [*COPIES]
    assert [content_of(disk, one) for one in DIRECTORIES] == [b"new", b"new"]
    assert [content_of(disk, one) for one in COPIES] == [b"old", b"old"]
