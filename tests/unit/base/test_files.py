"""What only the machine's own files can get wrong: short counts, locks of other processes."""

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.base.files import (
    IOV_MAX,
    Buffer,
    OsFile,
    OsFileSystem,
    base_name,
    join,
    parent_directory,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


def shorten_writes(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """A kernel that takes at most `limit` bytes at a time, as a nearly full disk does."""
    pwrite = os.pwrite

    def short_pwrite(descriptor: int, buffer: Buffer, position: int) -> int:
        return pwrite(descriptor, memoryview(buffer)[:limit], position)

    def short_pwritev(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
        return pwrite(descriptor, b"".join(buffers)[:limit], position)

    monkeypatch.setattr(os, "pwrite", short_pwrite)
    monkeypatch.setattr(os, "pwritev", short_pwritev)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 100])
def test_a_write_continues_where_the_kernel_stopped(
    monkeypatch: pytest.MonkeyPatch, path: str, limit: int
) -> None:
    file = OsFileSystem().open(path, create=True)
    shorten_writes(monkeypatch, limit)
    file.pwrite(memoryview(b"01234567"), 2)
    file.pwritev([b"abc", b"", bytearray(b"d"), memoryview(b"efgh")], 10)
    assert Path(path).read_bytes() == b"\0\0" + b"01234567" + b"abcdefgh"
    file.close()


def test_writes_of_many_buffers_continue_within_each_call(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    file = OsFileSystem().open(path, create=True)
    shorten_writes(monkeypatch, 1000)
    buffers = [b"%d," % number for number in range(2 * IOV_MAX + 1)]
    file.pwritev(buffers, 0)
    assert Path(path).read_bytes() == b"".join(buffers)
    file.close()


def test_a_disk_that_takes_nothing_is_full(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    file = OsFileSystem().open(path, create=True)
    shorten_writes(monkeypatch, 0)
    for write in (lambda: file.pwrite(b"1", 0), lambda: file.pwritev([b"1"], 0)):
        with pytest.raises(OSError) as raised:
            write()
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == path
    file.close()


def test_an_error_half_way_through_a_write_is_raised(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    file = OsFileSystem().open(path, create=True)
    pwrite = os.pwrite

    def filling_pwrite(descriptor: int, buffer: Buffer, position: int) -> int:
        if position >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, memoryview(buffer)[: 4 - position], position)

    monkeypatch.setattr(os, "pwrite", filling_pwrite)
    with pytest.raises(OSError) as raised:
        file.pwrite(b"0123456789", 0)
    assert raised.value.errno == errno.ENOSPC
    assert Path(path).read_bytes() == b"0123"
    file.close()


def test_a_read_continues_where_the_kernel_stopped(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    Path(path).write_bytes(b"0123456789")
    file = OsFileSystem().open(path)
    pread = os.pread
    monkeypatch.setattr(
        os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 3), at)
    )
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(100, 1) == b"123456789"
    file.close()


def test_a_closed_file_does_not_close_its_successor(path: str) -> None:
    first = OsFileSystem().open(path, create=True)
    descriptor = first.fileno()
    first.close()
    second = OsFileSystem().open(path)
    assert second.fileno() == descriptor, "the kernel gives out the lowest free number"
    first.close()
    assert second.size() == 0
    second.close()


@pytest.mark.parametrize("closed_first", ["the original", "the duplicate"])
def test_a_duplicate_is_readable_until_it_is_closed_itself(path: str, closed_first: str) -> None:
    before = open_descriptors()
    file = OsFileSystem().open(path, writable=True, create=True)
    file.pwrite(b"0123456789", 0)
    duplicates = [file.duplicate(), file.duplicate()]
    if closed_first == "the original":
        file.close()
        assert [one.pread(4, 3) for one in duplicates] == [b"3456", b"3456"]
    for one in duplicates:
        one.close()
    with pytest.raises(OSError):
        duplicates[0].pread(4, 3)
    if closed_first == "the duplicate":
        assert file.pread(4, 3) == b"3456"
        file.close()
    assert open_descriptors() == before


def test_a_file_whose_close_fails_is_closed(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    file = OsFileSystem().open(path, create=True)
    descriptor = file.fileno()

    def failing_close(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", failing_close)
        with pytest.raises(OSError):
            file.close()
    file.close()
    os.close(descriptor)  # The kernel has given it up by then; the patch has not.
    assert isinstance(file, OsFile)
    assert file.fileno() == -1


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_lock_that_is_taken_costs_no_descriptor(path: str) -> None:
    lock = OsFileSystem().lock(path)
    assert lock is not None
    before = open_descriptors()
    for _ in range(5):
        assert OsFileSystem().lock(path) is None
    assert open_descriptors() == before
    lock.release()
    assert open_descriptors() == before - 1


def test_a_lock_that_cannot_be_taken_costs_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    before = open_descriptors()

    def failing_lockf(descriptor: int, command: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.lockf", failing_lockf)
        with pytest.raises(OSError) as raised:
            OsFileSystem().lock(path)
    assert raised.value.errno == errno.ENOLCK
    assert open_descriptors() == before
    lock = OsFileSystem().lock(path)
    assert lock is not None
    lock.release()


TRY_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
"""


def exit_code_of_another_process_that_locks(path: str) -> int:
    return subprocess.run([sys.executable, "-S", "-c", TRY_LOCK, path], check=False).returncode


def test_a_lock_keeps_another_process_out(path: str) -> None:
    lock = OsFileSystem().lock(path)
    assert lock is not None
    assert OsFileSystem().lock(path) is None  # Which must not loosen the first.
    assert OsFileSystem().lock_holder(path) == os.getpid()
    assert exit_code_of_another_process_that_locks(path) == 7
    lock.release()
    assert exit_code_of_another_process_that_locks(path) == 0


HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_respected_until_it_ends(path: str) -> None:
    command = [sys.executable, "-S", "-c", HOLD_LOCK, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        before = open_descriptors()
        assert OsFileSystem().lock(path) is None
        assert OsFileSystem().lock_holder(path) == holder.pid
        assert open_descriptors() == before
        holder.kill()
    assert OsFileSystem().lock_holder(path) is None
    lock = OsFileSystem().lock(path)
    assert lock is not None
    lock.release()


@pytest.mark.parametrize(
    ("path", "directory", "name"),
    [
        ("a/b/c", "a/b", "c"),
        ("a/b/", "a", "b"),
        ("/a", "/", "a"),
        ("/a/", "/", "a"),
        ("a", ".", "a"),
        ("a/", ".", "a"),
        ("/", "/", ""),
    ],
)
def test_a_path_has_a_directory_and_a_name(path: str, directory: str, name: str) -> None:
    assert parent_directory(path) == directory
    assert base_name(path) == name


def test_names_are_joined_to_a_path() -> None:
    assert join("a", "b", "c") == "a/b/c"
    assert join("a/", "b") == "a/b"


def test_a_symbolic_link_leads_to_the_canonical_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    canonical = OsFileSystem().canonical
    assert canonical(str(tmp_path / "link" / "a")) == canonical(str(tmp_path / "real" / "a"))
