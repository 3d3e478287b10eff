"""A log with topics and a group, and the commands run on it: what tests of commands share."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.main import cli
from ottla.client.administration.admin import Admin
from ottla.embedded.log import Log

ORDERS = TopicPartition("orders", 0)


class Administered:
    """A log with a hundred records in `orders`, of which the group `billing` has read forty.

    `target` is its directory, which no process holds, or the address of its broker.
    """

    def __init__(self, log: Log, target: str) -> None:
        self.target = target
        log.create_topic("orders", partitions=2)
        log.create_topic("books", config={"cleanup.policy": "compact"})
        for number in range(100):
            log.append("orders", b"x", partition=0, timestamp_ms=1_700_000_000_000 + number)
        with Admin(log) as admin:
            admin.alter_group_offsets("billing", {ORDERS: 40, TopicPartition("orders", 1): 0})

    def run(self, *words: str) -> Result:
        """`TARGET` stands for the target."""
        arguments = [self.target if word == "TARGET" else word for word in words]
        return CliRunner().invoke(cli, arguments)

    def lines(self, *words: str) -> list[str]:
        result = self.run(*words)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    def json(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(*words, "--json") if line[0] == "{"]

    def end(self, *words: str) -> tuple[int, str]:
        result = self.run(*words)
        return result.exit_code, result.output.strip()


@contextmanager
def administered(directory: Path, *, is_served: bool) -> Iterator[Administered]:
    """In a surrounding without targets of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as surrounding:
        surrounding.setenv("XDG_CONFIG_HOME", str(directory / "home"))
        for name in ("OTTLA_TARGET", "OTTLA_CONTEXT", "OTTLA_CONTEXTS"):
            surrounding.delenv(name, raising=False)
        # The records are of 2023: on a slow machine a module outlasts the 30 s to retention.
        settings = {"offsets.topic.num.partitions": 1, "log.initial.task.delay.ms": 3_600_000}
        with ottla.open(directory / "d", settings) as log:
            if is_served:
                yield Administered(log, log.listen("127.0.0.1:0").address)
                return
            found = Administered(log, str(directory / "d"))
        yield found


@pytest.fixture(params=["broker", "directory"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Administered]:
    with administered(tmp_path, is_served=request.param == "broker") as found:
        yield found


@pytest.fixture(scope="module")
def same_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    """For tests that change nothing."""
    with administered(tmp_path_factory.mktemp("same"), is_served=True) as found:
        yield found
