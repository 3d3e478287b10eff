"""A cleaner's process ends with its broker, and until then nobody else has the directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base.files import CAN_LEND_LOCKS, OsFileSystem
from tests.integration.cli.support import ENVIRONMENT

TIMEOUT_S = 30

PARENT = """
import os, subprocess, sys
ours, its = os.pipe()
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], str(ours), str(os.getpid())], pass_fds=[ours]
)
os.close(ours)
print(child.pid, flush=True)
child.wait()
"""

CHILD = """
import sys, threading
from ottla.runtime import cleaning_process
if {is_elsewhere}:
    cleaning_process.sys = type("sys", (), {{"platform": "darwin"}})
cleaning_process.end_with_parent(int(sys.argv[1]), int(sys.argv[2]))
print("at work", flush=True)
threading.Event().wait()
"""

BROKER = """
import subprocess, sys
from ottla.base.files import OsFileSystem
lock = OsFileSystem().lock(sys.argv[1])
cleaner = subprocess.Popen(
    [sys.executable, "-c", "print('at work', flush=True); input()"], pass_fds=[lock.lend()]
)
cleaner.wait()
"""


def started(code: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["this system", "without prctl"])
def test_a_child_ends_when_its_parent_is_killed(is_elsewhere: bool) -> None:
    with started(PARENT, CHILD.format(is_elsewhere=is_elsewhere)) as parent:
        assert parent.stdout is not None
        assert {parent.stdout.readline().strip() for _ in range(2)} > {"at work"}
        os.kill(parent.pid, signal.SIGKILL)
        # The child has the other end too: it is over when both are.
        assert parent.communicate(timeout=TIMEOUT_S)[0] == ""


@pytest.mark.slow
@pytest.mark.skipif(not CAN_LEND_LOCKS, reason="locks cannot be lent on this system")
def test_a_directory_stays_claimed_until_the_cleaner_of_a_killed_broker_has_ended(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / ".lock")
    with started(BROKER, path) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "at work\n"
        os.kill(broker.pid, signal.SIGKILL)
        broker.wait(TIMEOUT_S)
        assert OsFileSystem().lock(path) is None
        broker.communicate("\n", timeout=TIMEOUT_S)
    lock = OsFileSystem().lock(path)
    assert lock is not None
    lock.release()


def test_a_lock_that_was_lent_is_released_for_all(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = OsFileSystem().lock(path)
    assert lock is not None
    lent = lock.lend()
    kept = os.dup(lent) if lent is not None else None  # as a forked child has it
    lock.release()
    assert lock.lend() is None
    again = OsFileSystem().lock(path)
    assert again is not None
    again.release()
    if kept is not None:
        os.close(kept)
