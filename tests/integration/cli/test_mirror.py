"""`ottla mirror` as a person runs it, in a process of its own, and as a kill ends it."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from tests.integration.cli.support import ENVIRONMENT, run_ottla, serving
from tests.support.mirroring import content
from tests.support.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

SETTINGS = {"log.segment.bytes": 20_000, "log.index.size.max.bytes": 2000}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    write(directory, 300)
    return directory


def write(directory: Path, count: int) -> None:
    with ottla.open(directory, SETTINGS) as log:
        if "orders" not in log.topics():
            log.create_topic("orders", partitions=2, config={"retention.ms": 86_400_000})
        for number in range(count):
            log.append("orders", b"%d" % number * 50, partition=number % 2)


def equal(source: Path, target: Path) -> bool:
    places = [(None, "orders", index) for index in (0, 1)]
    return all(content(str(source), *one) == content(str(target), *one) for one in places)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Runner:
    """Runs `ottla mirror` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Done:
        with pytest.raises(SystemExit) as left:
            main(["mirror", *map(str, arguments)])
        said = self._capsys.readouterr()
        return Done(int(left.value.code or 0), said.out, said.err)


@pytest.fixture
def mirror(capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(capsys)


def test_a_directory_is_mirrored_again_and_verified(
    source: Path, tmp_path: Path, mirror: Runner
) -> None:
    target = tmp_path / "target"
    done = mirror(source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert "orders" in done.stdout
    assert "150, 150" in done.stdout
    assert equal(source, target)
    write(source, 10)
    done = mirror("verify", source, target)
    assert done.returncode == 1
    assert "5 before the source; run ottla mirror again" in done.stdout
    assert mirror("verify", "--allow-lag", source, target).returncode == 0
    assert mirror(source, target).returncode == 0
    done = mirror("verify", source, target)
    assert (done.returncode, "no difference" in done.stdout) == (0, True)


def test_a_broker_of_several_directories_is_one_source(tmp_path: Path, mirror: Runner) -> None:
    disks = [str(tmp_path / "one"), str(tmp_path / "two")]
    with ottla.open(disks, SETTINGS) as log:
        log.create_topic("orders", partitions=4, config={"retention.ms": 86_400_000})
        for number in range(100):
            log.append("orders", b"%d" % number * 50, partition=number % 4)
    parts = [len(list(Path(disk).glob("orders-*"))) for disk in disks]
    assert min(parts) > 0
    target = tmp_path / "target"
    assert mirror(",".join(disks), target).returncode == 0
    done = mirror("verify", ", ".join(disks), target)
    assert (done.returncode, "4 partitions" in done.stdout) == (0, True)
    with ottla.open(target) as copy:
        assert copy.offsets("orders") == dict.fromkeys(range(4), (0, 25))


def test_a_partition_that_is_in_two_directories_is_reported(
    source: Path, tmp_path: Path, mirror: Runner
) -> None:
    shutil.copytree(source, tmp_path / "twin")
    done = mirror(f"{source},{tmp_path / 'twin'}", tmp_path / "target")
    assert done.returncode == 2
    assert f"orders-0 is in {source} and in {tmp_path / 'twin'}" in " ".join(done.stderr.split())


def test_what_is_refused_is_one_line_and_exit_code_1(
    source: Path, tmp_path: Path, mirror: Runner
) -> None:
    target = tmp_path / "target"
    mirror(source, target)
    write(target, 2)
    done = mirror(source, target)
    assert done.returncode == 1
    assert "orders-0: the source ends at offset 150, the target at 151" in done.stderr
    assert "2 refused" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{source}", "127.0.0.1:9"], "--mode reproduce"),
        (["{source}", "{source}"], "are the same directory"),
        (["nowhere", "{target}"], "nowhere does not exist"),
        (["{source},nowhere", "{target}"], "nowhere does not exist"),
        (["{source},{source}", "{source}"], "are the same directory"),
        (["127.0.0.1:9", "{target}"], "name a broker's HOST:PORT"),
        (["{source}", "{target}", "--throttle", "fast"], "--throttle takes a size"),
        (["{source}", "{target}", "--mode", "reproduce"], "name its HOST:PORT"),
        (
            ["{source}", "{target}", "--engine", "spark", "--throttle", "1k"],
            "--throttle works within",
        ),
        (["verify", "{source}", "nowhere"], "nowhere does not exist"),
    ],
)
def test_what_cannot_be_is_reported_in_one_line(
    source: Path, tmp_path: Path, mirror: Runner, arguments: list[str], words: str
) -> None:
    places = {"source": source, "target": tmp_path / "target"}
    done = mirror(*(one.format(**places) for one in arguments))
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A mirror that runs until it is over, or killed."""
    command = [sys.executable, "-m", "ottla", "mirror", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_running_broker_is_followed_until_told_to_stop(source: Path, tmp_path: Path) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

    target = tmp_path / "target"
    options = ("--follow", "--interval", "0.05", "--topics", "o*")
    with serving(source) as (address, _), started(address, target, *options) as process:
        producer = Producer({"bootstrap.servers": address})
        admin = AdminClient({"bootstrap.servers": address})
        assert process.stdout is not None
        assert "orders-0 to 150" in process.stdout.readline()
        producer.produce("orders", b"new", partition=1)
        producer.flush()
        assert "orders-1 to 151" in process.stdout.readline()
        admin.create_topics([NewTopic("others", 1)])["others"].result()
        admin.create_partitions([NewPartitions("orders", 3)])["orders"].result()
        for topic, partition in (("others", 0), ("orders", 2)):
            fresh = Producer({"bootstrap.servers": address})
            fresh.produce(topic, b"x", partition=partition)
            fresh.flush()
            line = process.stdout.readline()
            assert f"{topic}-{partition} to 1" in line
        up_to_date = f"ottla mirror pid={process.pid} data={target}: 4 partitions up to date"
        wait_until(lambda: run_ottla("status", target).stdout.startswith(up_to_date))
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
        assert "others" in rest
        assert not (target / "ottla-owner").exists()
        assert run_ottla("mirror", "verify", address, target).returncode == 0
    with serving(target) as (copy, _):
        assert run_ottla("mirror", "verify", source, copy).returncode == 0


def test_a_mirror_that_is_killed_continues_where_it_was(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(3):
        with started(source, target, "--throttle", "40k") as process:
            wait_for(target)
            deadline = time.monotonic() + chance.uniform(0.0, 0.4)
            while time.monotonic() < deadline and process.poll() is None:
                process.poll()
    assert run_ottla("mirror", source, target).returncode == 0
    assert equal(source, target)
    assert run_ottla("mirror", "verify", source, target).returncode == 0
    assert run_ottla("log", "check", target).returncode == 0


def wait_for(target: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (target / "orders-0").exists():
        assert time.monotonic() < deadline
