"""What takes a log directory offline, and what is said of it."""

import errno
import os

import pytest

from ottla.storage.directory_health import DirectoryHealth


def refused(code: int, path: str | None = None) -> str:
    health = DirectoryHealth("/d")
    return str(health.fail(OSError(code, os.strerror(code), path)))


def test_what_failed_is_named() -> None:
    assert refused(errno.EIO, "/d/t-0/0.log") == "/d: Input/output error (/d/t-0/0.log)"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_few_open_files_are_no_matter_of_the_disk(code: int) -> None:
    assert refused(code).endswith("let the process have more open files (ulimit -n)")


def test_first_failure_counts() -> None:
    health = DirectoryHealth("/d")
    first = health.fail(OSError(errno.EIO, "broken"))
    assert health.fail(OSError(errno.ENOSPC, "full")) is first
    with pytest.raises(Exception, match="broken"), health.guarding():
        raise AssertionError("an offline directory is not worked on")
