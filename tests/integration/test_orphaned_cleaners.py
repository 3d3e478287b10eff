"""A cleaner's process ends with its broker, and until then nobody else has the directory."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ottla
from ottla.base import file_locks
from ottla.base.file_locks import CAN_LEND_LOCKS
from ottla.base.files import OsFileSystem
from ottla.runtime import children
from ottla.storage.directory.owner_note import refuse_in_use
from tests.integration.cli.support import ENVIRONMENT, serving
from tests.support.patience import PATIENCE_S, wait_until

COMPACTING = (
    "log.cleanup.policy=compact",
    "log.segment.bytes=20000",
    "log.cleaner.min.cleanable.ratio=0",
    "log.cleaner.backoff.ms=20",
    "log.cleaner.io.max.bytes.per.second=200000",
    "log.flush.interval.messages=1",
)
ROUND = 2000
KEY_COUNT = 1900
"""Nearly all records of a round stay, so that a pass writes for longer than it reads."""

PARENT = """
import subprocess, sys
from ottla.runtime import children
child = children.start_child("orphan", stdout=sys.stdout.fileno())
with child as process:
    print(process.pid, flush=True)
    process.wait()
"""

CHILD = """
import sys, threading
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


def started(code: str, *arguments: str, folders: Sequence[Path] = ()) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(folders),
        text=True,
    )


def environment(folders: Sequence[Path]) -> dict[str, str]:
    """Python finds modules in these folders first, the last one before the others."""
    paths = [str(one) for one in reversed(folders)]
    return {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([*paths, *sys.path])}


@pytest.mark.slow
def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "orphan.py").write_text(CHILD)
    # Where there is no `prctl` the child has the pipe alone.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/ctypes.py").write_text("raise OSError('there is none')")
    for folders in ([tmp_path], [tmp_path, tmp_path / "elsewhere"]):
        with started(PARENT, folders=folders) as parent:
            assert parent.stdout is not None
            assert {parent.stdout.readline().strip() for _ in range(2)} > {"at work"}
            os.kill(parent.pid, signal.SIGKILL)
            # The child has the other end too: it is over when both are.
            assert parent.communicate(timeout=PATIENCE_S)[0] == ""


@pytest.mark.slow
def test_a_child_whose_parent_ends_before_it_watches_ends_before_its_first_import(
    tmp_path: Path,
) -> None:
    (tmp_path / "orphan.py").write_text("print('at work', flush=True)")
    ours, its = os.pipe()
    command = children.child_command(ours, "orphan")
    command[command.index(str(os.getpid()))] = "1"  # as if the parent were another one
    child = subprocess.run(
        command, pass_fds=[ours], capture_output=True, env=environment([tmp_path])
    )
    os.close(its)
    os.close(ours)
    assert (child.returncode, child.stdout, child.stderr) == (1, b"", b"")


@pytest.mark.slow
@pytest.mark.skipif(not CAN_LEND_LOCKS, reason="locks cannot be lent on this system")
def test_a_start_waits_for_a_lent_lock_until_the_child_of_a_killed_broker_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / ".lock")

    def refuse_to_wait() -> None:
        raise AssertionError("a lock of a living process is refused at once")

    with started(BROKER, path) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "at work\n"
        monkeypatch.setattr(file_locks, "_pause", refuse_to_wait)
        assert OsFileSystem().lock(path) is None
        os.kill(broker.pid, signal.SIGKILL)
        # The killed process may still have it, and its child has it as long as it lives.
        monkeypatch.setattr(file_locks, "LENT_WAIT_S", 0.0)
        assert OsFileSystem().lock(path) is None
        broker.wait(PATIENCE_S)
        assert OsFileSystem().lock(path) is None
        note = refuse_in_use(OsFileSystem(), str(tmp_path), "stop it")
        assert "in use by a child of a process that has ended" in str(note)
        monkeypatch.setattr(
            file_locks, "_pause", lambda: broker.communicate("\n", timeout=PATIENCE_S)
        )
        monkeypatch.setattr(file_locks, "LENT_WAIT_S", PATIENCE_S)
        lock = OsFileSystem().lock(path)
    assert lock is not None
    lock.release()


@pytest.mark.slow
@pytest.mark.skipif(not CAN_LEND_LOCKS, reason="locks cannot be lent on this system")
def test_a_broker_that_is_killed_while_its_cleaner_writes_loses_nothing(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    options = [part for one in COMPACTING for part in ("-o", one)]
    with serving(tmp_path, *options) as (address, broker):
        acknowledged = produce_a_round(address, 0)

        def is_caught() -> bool:
            """Stops the broker where its cleaner is in the middle of a pass."""
            nonlocal acknowledged
            if not list(partition.glob("*.cleaned")):
                if not cleaners_of(broker.pid):  # a whole pass may go by unseen on a slow host
                    acknowledged += produce_a_round(address, acknowledged)
                return False
            os.kill(broker.pid, signal.SIGSTOP)
            if list(partition.glob("*.cleaned")) and cleaners_of(broker.pid):
                return True
            os.kill(broker.pid, signal.SIGCONT)
            return False

        wait_until(is_caught)
        os.kill(broker.pid, signal.SIGKILL)
        broker.wait(PATIENCE_S)
        wait_until(lambda: is_free(tmp_path), "the cleaner still has the directory")
    assert not cleaners_of(broker.pid)
    assert list(partition.glob("*.cleaned"))
    last = {key_of(number): b"%d" % number for number in range(acknowledged)}
    settings = {"log.cleanup.policy": "compact", "log.cleaner.enable": False}
    for _ in range(2):
        with ottla.open(tmp_path, settings) as log:
            assert not [one for one in os.listdir(partition) if one.endswith((".cleaned", ".swap"))]
            assert {one.key: one.value for one in log.read("t")} == last
            assert log.broker.topics.partition("t", 0).log.log_end_offset == acknowledged
            log.compact("t")


def produce_a_round(address: str, first: int) -> int:
    """Returns how many records were acknowledged, which are all."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "batch.num.messages": 20})
    for number in range(first, first + ROUND):
        producer.produce("t", b"%d" % number, key_of(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return ROUND


def key_of(number: int) -> bytes:
    return b"key%d" % (number % KEY_COUNT)


def is_free(directory: Path) -> bool:
    """A process that ends has no name any more while it still has its locks."""
    lock = OsFileSystem().lock(str(directory / ".lock"))
    if lock is not None:
        lock.release()
    return lock is not None


def cleaners_of(broker: int) -> list[str]:
    """The cleaner's processes that run; one argument is the broker's id."""
    pattern = f"_lifeline.py [0-9]+ {broker} ottla.runtime.cleaning_process$"
    return subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True).stdout.split()


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
