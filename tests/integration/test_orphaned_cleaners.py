"""A cleaner's process ends with its broker, and until then nobody else has the directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ottla
from ottla.base.files import CAN_LEND_LOCKS, OsFileSystem
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
        assert parent.communicate(timeout=PATIENCE_S)[0] == ""


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
        broker.wait(PATIENCE_S)
        assert OsFileSystem().lock(path) is None
        broker.communicate("\n", timeout=PATIENCE_S)
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
    """The cleaner's processes that run; their last argument is the broker's id."""
    pattern = f"cleaning_process [0-9]+ {broker}$"
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
