"""`ottla produce` as a process: beside kcat, with a pipe that stays open, interrupted."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import wait_until

LINES = b"".join(b"k%d:value %d \xff\n" % (number % 11, number) for number in range(300))
TIMEOUT_S = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[ottla.Log, str]]:
    with ottla.open(tmp_path / "data") as log:
        for topic in ("ours", "theirs"):
            log.create_topic(topic, partitions=3)
        yield log, log.listen("127.0.0.1:0").address


def run(*command: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        command, input=data, capture_output=True, env=ENVIRONMENT, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_what_it_sends_is_what_kcat_sends(log: tuple[ottla.Log, str]) -> None:
    _, address = log
    words = ("-K", ":", "-H", "a=1", "-H", "b=2")
    ours = (sys.executable, "-m", "ottla", "produce", address, "ours", "-q", *words)
    run(*ours, data=LINES)
    kcat = ("kcat", "-b", address, "-X", "topic.partitioner=murmur2")
    run(*kcat, "-P", "-t", "theirs", *words, data=LINES)
    letters = r"%p %o %k %K %s %S [%h]\n"
    read = ("kcat", "-b", address, "-C", "-e", "-q", "-f", letters, "-t")
    lines = [sorted(run(*read, topic).splitlines()) for topic in ("ours", "theirs")]
    assert len(lines[0]) == 300
    assert lines[0] == lines[1]
    printed = run(sys.executable, "-m", "ottla", "consume", address, "theirs", "-F", letters)
    assert sorted(printed.splitlines()) == lines[1]


@pytest.mark.slow
def test_lines_that_come_slowly_are_sent_as_they_come_until_ctrl_c(
    log: tuple[ottla.Log, str],
) -> None:
    opened, address = log
    command = [sys.executable, "-m", "ottla", "produce", address, "ours", "-p", "0"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdin is not None
    for number in (1, 2):
        process.stdin.write(b"line %d\nhalf" % number)
        process.stdin.flush()
        wait_until(lambda number=number: opened.offsets("ours")[0][1] >= number)
    process.send_signal(signal.SIGINT)
    # Its input ends afterwards: an end that it reads first is how it ends.
    assert process.wait(TIMEOUT_S) == 130
    _, errors = process.communicate()
    assert errors == b""
    assert [one.value for one in opened.read("ours", 0)] == [b"line 1", b"halfline 2"]
