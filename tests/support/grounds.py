"""What a cluster of processes stands on: where its brokers run, and its ZooKeeper if it has one."""

from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.places import HERE, Place
from tests.support.zookeeper_server import ZooKeeper


class ZooKeeperService(Protocol):
    """In a `with` statement; what was killed comes back with what it knew."""

    address: str

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...


class Grounds:
    """All of it on this machine, with one ZooKeeper."""

    has_zookeeper = True

    def of_broker(self, broker_id: int) -> Place:
        return HERE

    def zookeeper(self, folder: Path, tick_ms: int) -> ZooKeeperService:
        return ZooKeeper(folder, tick_ms)


ONE_MACHINE = Grounds()


class QuorumGrounds(Grounds):
    has_zookeeper = False


QUORUM = QuorumGrounds()

BOTH_KINDS = pytest.mark.parametrize(
    "grounds", [ONE_MACHINE, QUORUM], ids=["zookeeper", "quorum"], scope="module"
)
"""For what a cluster does the same, whatever keeps its metadata."""
