"""Kafka Connect keeps its offsets, settings and states in Ottla, and moves lines exactly once."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import UserError
from tests.compat.connect_worker import JARS
from tests.compat.java import PATIENCE_S, absence, array_list, jars, kafka, wait
from tests.compat.java_clients import administrator, read_values
from tests.integration.cli.support import ENVIRONMENT, serving

ROOT = Path(__file__).resolve().parents[2]
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "2",
}
OPTIONS = [word for one in BROKER.items() for word in ("-o", "=".join(one))]
INTERNAL_TOPICS = ("connect-configs", "connect-offsets", "connect-status")
FILE_CONNECTORS = "org.apache.kafka.connect.file.FileStream"


def connect_absence() -> str | None:
    if absence() is not None:
        return absence()
    try:
        jars(*JARS)
    except UserError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(connect_absence() is not None, reason=str(connect_absence())),
]


def settings(directory: Path, address: str) -> dict[str, Any]:
    """Of a worker and of two connectors: from `in.txt` to the topic `lines` to `out.txt`."""
    text = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": address,
        "group.id": "connect",
        "key.converter": text,
        "value.converter": text,
        "offset.storage.partitions": "2",
        "offset.flush.interval.ms": "300",
        "exactly.once.source.support": "enabled",
        "plugin.path": str(directory),
        "plugin.discovery": "service_load",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "300",
        "scheduled.rebalance.max.delay.ms": "0",
        "reconnect.backoff.max.ms": "200",
        "consumer.session.timeout.ms": "2000",
        "consumer.heartbeat.interval.ms": "300",
        "producer.reconnect.backoff.max.ms": "200",
        # A worker reads its topics to their end first, so it waits for what a killed one left open.
        "producer.transaction.timeout.ms": "2000",
        "consumer.reconnect.backoff.max.ms": "200",
    }
    for name in ("config", "offset", "status"):
        plural = name if name == "status" else f"{name}s"
        worker[f"{name}.storage.topic"] = f"connect-{plural}"
        worker[f"{name}.storage.replication.factor"] = "1"
    connectors = {
        "source": {"topic": "lines", "file": str(directory / "in.txt")},
        "sink": {"topics": "lines", "file": str(directory / "out.txt")},
    }
    for name, one in connectors.items():
        one["connector.class"] = f"{FILE_CONNECTORS}{name.capitalize()}Connector"
        one["tasks.max"] = "1"
    connectors["source"]["exactly.once.support"] = "required"
    return {"worker": worker, "connectors": connectors}


@contextmanager
def working(directory: Path) -> Iterator[subprocess.Popen[str]]:
    with (directory / "worker.log").open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.connect_worker", str(directory / "worker.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"},
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not is_so():
        assert process.poll() is None, "the worker has ended; see worker.log"
        if time.monotonic() > deadline:
            pytest.fail(f"not in time; connectors and tasks: {ask_states(process)}")
        time.sleep(0.05)


def ask_states(process: subprocess.Popen[str]) -> Any:
    """Of connectors and their tasks, which the worker tells at its end."""
    told, _ = process.communicate("", timeout=2 * PATIENCE_S)
    return json.loads(told.splitlines()[-1])


def add_lines(directory: Path, numbers: range) -> None:
    with (directory / "in.txt").open("a") as file:
        file.writelines(f"{one}\n" for one in numbers)


def lines_out(directory: Path) -> list[str]:
    path = directory / "out.txt"
    return path.read_text().splitlines() if path.exists() else []


def test_lines_go_through_once_though_worker_and_broker_are_killed(tmp_path: Path) -> None:
    """The source writes exactly once; the sink is promised to miss nothing."""
    data = tmp_path / "data"
    add_lines(tmp_path, range(100))
    with serving(data, *OPTIONS) as (address, broker):
        (tmp_path / "worker.json").write_text(json.dumps(settings(tmp_path, address)))
        with working(tmp_path) as worker:
            wait_until(lambda: len(set(lines_out(tmp_path))) == 100, worker)
            add_lines(tmp_path, range(100, 6000))
            wait_until(lambda: "100" in lines_out(tmp_path), worker)
        with working(tmp_path) as worker:
            wait_until(lambda: len(set(lines_out(tmp_path))) == 6000, worker)
            add_lines(tmp_path, range(6000, 9000))
            wait_until(lambda: "6000" in lines_out(tmp_path), worker)
            broker.send_signal(signal.SIGKILL)
            broker.wait(PATIENCE_S)
            with serving(None, "-d", str(data), "--listen", address, *OPTIONS):
                wait_until(lambda: len(set(lines_out(tmp_path))) == 9000, worker)
                assert ask_states(worker) == {"source": ["RUNNING"] * 2, "sink": ["RUNNING"] * 2}
                found = Counter(read_values(address, "lines", isolation_level="read_committed"))
                assert found == Counter(map(str, range(9000)))
                assert_internal_topics_are_compacted(address)


def assert_internal_topics_are_compacted(address: str) -> None:
    types = kafka("common.config.ConfigResource$Type")
    resource = kafka("common.config.ConfigResource")
    asked = [resource(types.TOPIC, name) for name in INTERNAL_TOPICS]
    with administrator(address) as admin:
        found = wait(admin.describeConfigs(array_list(asked)).all())
    assert [found[one].get("cleanup.policy").value() for one in asked] == ["compact"] * 3
