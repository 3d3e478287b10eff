"""A directory that another process writes is read and followed here, and never opened twice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from tests.golden.directories import CASES, GOLDEN
from tests.integration.cli.support import serving
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
    sys.stdin.read()
"""
"""What Kafka does with a directory that it runs on: Java's `FileChannel.tryLock` is this lock."""


def test_what_a_broker_in_another_process_writes_is_followed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as (address, process), ottla.Producer(address) as producer:
        with ottla.Admin(address) as admin:
            admin.create_topic("orders", partitions=1)
        with ottla.open(data, read_only=True) as log:
            tail = iter(log.tail("orders", from_offset={0: 0}, timeout_s=PATIENCE_S))
            for number in range(3):
                producer.send("orders", b"%d" % number).result(PATIENCE_S)
                assert next(tail).value == b"%d" % number
            assert [one.offset for one in log.scan("orders")] == [0, 1, 2]
        with pytest.raises(
            ottla.UserError, match=f"process, {process.pid}, a broker at {address};"
        ):
            ottla.open(data)


@pytest.mark.skipif(not CASES, reason="no golden directories")
def test_a_directory_that_kafka_runs_on_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "logdir"
    shutil.copytree(GOLDEN / "basic-none" / "logdir", data)
    (data / ".lock").touch()
    command = [sys.executable, "-c", LOCKED, str(data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == b"locked\n"
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
        with ottla.open(data, read_only=True) as log:
            topic = "basic-none"
            assert list(log.read(topic))
        with pytest.raises(ottla.UserError, match=f"in use by another process, {kafka.pid};"):
            ottla.open(data)
        assert before == {path: path.stat().st_mtime_ns for path in data.rglob("*")}
