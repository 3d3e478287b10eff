"""Who holds a log directory: the lock says which process, the note where it can be asked."""

import os

import pytest

from ottla.base.files import FileSystem, OsFileSystem, join
from ottla.storage.directory.owner_note import (
    Owner,
    owner_of,
    refuse_in_use,
    remove_owner_note,
    write_owner_note,
)
from ottla.testing import FakeFileSystem

NOTED = Owner(pid=0, addresses=("127.0.0.1:9092", "[::1]:9093"), command="serve")


@pytest.fixture
def files() -> FakeFileSystem:
    files = FakeFileSystem()
    files.make_directory("data")
    return files


def lock(files: FileSystem, directory: str) -> None:
    assert files.lock(join(directory, ".lock")) is not None


def test_a_note_is_read_as_it_was_written_while_the_lock_is_held(files: FakeFileSystem) -> None:
    lock(files, "data")
    write_owner_note(files, "data", NOTED)
    assert owner_of(files, "data") == NOTED
    remove_owner_note(files, "data")
    assert owner_of(files, "data") == Owner(pid=0)


def test_a_directory_that_is_free_or_missing_has_no_owner(files: FakeFileSystem) -> None:
    write_owner_note(files, "data", NOTED)
    assert owner_of(files, "data") is None
    assert owner_of(files, "nowhere") is None


@pytest.mark.parametrize("content", [b"", b"pid=x\naddresses=\ncommand=\n", b"\xff", b"pid=\\u1"])
def test_a_note_that_cannot_be_read_counts_as_none(files: FakeFileSystem, content: bytes) -> None:
    lock(files, "data")
    files.open("data/ottla-owner", create=True).pwrite(content, 0)
    assert owner_of(files, "data") == Owner(pid=0)


def test_the_note_of_a_process_that_is_gone_is_not_believed(files: FakeFileSystem) -> None:
    lock(files, "data")
    write_owner_note(files, "data", Owner(pid=4711, addresses=("127.0.0.1:9092",)))
    assert owner_of(files, "data") == Owner(pid=0)


def test_a_refusal_names_the_process_and_its_addresses(
    files: FakeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(pid=4711, addresses=("127.0.0.1:9092",), command="serve")
    write_owner_note(files, "data", owner)
    monkeypatch.setattr(files, "lock_holder", lambda path: 4711)
    assert str(refuse_in_use(files, "data", "stop it")) == (
        "data is in use by another process, 4711, a broker at 127.0.0.1:9092; stop it"
    )


def test_asking_for_the_owner_does_not_loosen_a_lock_of_ones_own(tmp_path: object) -> None:
    files = OsFileSystem()
    lock(files, str(tmp_path))
    assert owner_of(files, str(tmp_path)) == Owner(pid=os.getpid())
    assert owner_of(files, str(tmp_path)) == Owner(pid=os.getpid())


def test_what_a_process_does_before_it_listens_is_noted_and_named(files: FakeFileSystem) -> None:
    lock(files, "data")
    starting = Owner(pid=0, command="serve", doing="recovering orders-0; 2 of 9 logs left")
    write_owner_note(files, "data", starting)
    assert owner_of(files, "data") == starting
    assert str(refuse_in_use(files, "data", "wait for it")) == (
        "data is in use by another process, ottla serve; wait for it"
    )
