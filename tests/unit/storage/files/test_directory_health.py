"""What takes a log directory offline, and what is said of it."""

import errno
import os

import pytest

from ottla.base.errors import ShortageError, StorageError
from ottla.storage.files.directory_health import DirectoryHealth


def refused(code: int, path: str | None = None) -> str:
    health = DirectoryHealth("/d")
    return str(health.fail(OSError(code, os.strerror(code), path)))


def test_what_failed_is_named() -> None:
    assert refused(errno.EIO, "/d/t-0/0.log") == "/d: Input/output error (/d/t-0/0.log)"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_of_the_process_refuses_a_request_and_leaves_the_directory_online(
    code: int,
) -> None:
    health = DirectoryHealth("/d")
    with pytest.raises(ShortageError, match="ulimit -n"), health.guarding():
        raise OSError(code, os.strerror(code), "/d/t-0/0.log")
    with health.guarding():
        pass


def test_a_shortage_in_the_middle_of_a_change_takes_the_directory_offline() -> None:
    health = DirectoryHealth("/d")
    with pytest.raises(StorageError), health.guarding(changes_files=True):
        raise OSError(errno.EMFILE, "too many open files", "/d/t-0/0.log")
    assert health.failure is not None


def test_a_write_without_memory_takes_the_directory_offline() -> None:
    health = DirectoryHealth("/d")
    with pytest.raises(StorageError), health.guarding():
        raise OSError(errno.ENOMEM, "out of memory")  # of a write or a sync, which name no file
    assert health.failure is not None


def test_first_failure_counts() -> None:
    health = DirectoryHealth("/d")
    first = health.fail(OSError(errno.EIO, "broken"))
    assert health.fail(OSError(errno.ENOSPC, "full")) is first
    with pytest.raises(Exception, match="broken"), health.guarding():
        raise AssertionError("an offline directory is not worked on")


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (errno.EIO, "repair the disk"),
        (errno.ENOSPC, "make room on the disk"),
        (errno.EDQUOT, "make room on the disk, or have the quota raised"),
        (errno.EFBIG, "raise the limit of a file's size (ulimit -f)"),
        (errno.ENOENT, "put back what is missing"),
        (errno.ENOTDIR, "put back the directory that was replaced"),
        (errno.EROFS, "mount the disk so that it can be written"),
        (errno.EACCES, "give this user the right to write there"),
    ],
)
def test_the_fix_is_that_of_the_error(
    code: int, fix: str, caplog: pytest.LogCaptureFixture
) -> None:
    health = DirectoryHealth("/d")
    health.fail(OSError(code, "refused"))
    assert health.fix == fix
    (line,) = caplog.messages
    assert line == f"/d goes offline until a restart: refused; {fix}"
