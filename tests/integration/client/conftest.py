"""An open log, and its cluster over each of the two transports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.client.connecting.target import open_target
from ottla.embedded.log import Log

PROMPT = ClientSettings(first_pause_s=0.01, last_pause_s=0.05, patience_s=5.0)

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 10,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "data", SETTINGS) as log:
        yield log


@pytest.fixture(params=["in process", "in process beside a server", "socket"])
def target(request: pytest.FixtureRequest, log: Log) -> Log | str:
    """What names the log: itself, also while it listens, or its address."""
    if request.param == "in process":
        return log
    listening = log.listen("127.0.0.1:0")
    return listening.address if request.param == "socket" else log


@pytest.fixture
def cluster(target: Log | str) -> Iterator[Cluster]:
    with open_target(target, PROMPT) as cluster:
        yield cluster
