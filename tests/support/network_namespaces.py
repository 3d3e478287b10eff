"""Brokers and ZooKeeper on machines of their own, as far as the network goes, with links to cut.

Each is in a network namespace of Linux, and all are on one bridge, where clients reach them from
outside. A link is cut by a wrong address of the other's card: what is sent is lost in silence, as
behind a switch that is broken. To make namespaces takes root.
"""

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.grounds import Grounds, ZooKeeperService
from tests.support.places import Place
from tests.support.zookeeper_server import ZooKeeper

NOBODY = "02:00:00:00:00:01"
ZOOKEEPER = 0
"""The number of its machine; brokers have their ids."""


class Machines(Grounds):
    """`tag` begins the names of all that is made, `network` are three numbers of its addresses."""

    def __init__(self, tag: str, network: str, *, has_zookeeper: bool) -> None:
        self.has_zookeeper = has_zookeeper
        self._tag = tag
        self._network = network

    def of_broker(self, broker_id: int) -> Place:
        command = ("ip", "netns", "exec", self._namespace(broker_id))
        return Place(host=self._host(broker_id), command=command)

    def zookeeper(self, folder: Path, tick_ms: int) -> ZooKeeperService:
        return ZooKeeper(folder, tick_ms, place=self.of_broker(ZOOKEEPER))

    def cut(self, one: int, other: int) -> None:
        self.cut_way(one, other)
        self.cut_way(other, one)

    def cut_way(self, sender: int, receiver: int) -> None:
        """What the one sends does not arrive; what it is sent does."""
        self._neighbour("replace", sender, receiver, "lladdr", NOBODY, "nud", "permanent")

    def mend(self, one: int, other: int) -> None:
        """Both ways were cut."""
        self._neighbour("del", one, other)
        self._neighbour("del", other, one)

    def mend_way(self, sender: int, receiver: int) -> None:
        self._neighbour("del", sender, receiver)

    def _neighbour(self, deed: str, one: int, other: int, *more: str) -> None:
        run_ip("-n", self._namespace(one), "neigh", deed, self._host(other), "dev", "eth0", *more)

    def _namespace(self, number: int) -> str:
        return f"{self._tag}-{number}"

    def _host(self, number: int) -> str:
        return f"{self._network}.{number + 10}"

    def make(self, count: int, stack: ExitStack) -> None:
        """ZooKeeper's and those of so many brokers; raises `CalledProcessError`."""
        bridge = self._tag
        run_ip("link", "add", bridge, "type", "bridge")
        stack.callback(run_ip, "link", "del", bridge)
        run_ip("address", "add", f"{self._network}.1/24", "dev", bridge)
        run_ip("link", "set", bridge, "up")
        for number in range(count + 1):
            namespace = self._namespace(number)
            run_ip("netns", "add", namespace)
            stack.callback(run_ip, "netns", "del", namespace)
            ends = ("type", "veth", "peer", "name", "eth0", "netns", namespace)
            run_ip("link", "add", namespace, *ends)
            run_ip("link", "set", namespace, "master", bridge, "up")
            address = f"{self._host(number)}/24"
            run_ip("-n", namespace, "address", "add", address, "dev", "eth0")
            for card in ("eth0", "lo"):
                run_ip("-n", namespace, "link", "set", card, "up")


@contextmanager
def machines(count: int, *, has_zookeeper: bool = True) -> Iterator[Machines]:
    """So many for brokers, and one more; skips the test where none can be made."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the program ip (apt-get install iproute2)")
    # 198.18.0.0/15 is set aside for trials of networks.
    found = Machines(
        f"ottla{secrets.token_hex(2)}",
        f"198.18.{secrets.randbelow(256)}",
        has_zookeeper=has_zookeeper,
    )
    with ExitStack() as stack:
        try:
            found.make(count, stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield found


def run_ip(*words: str) -> None:
    """Raises `CalledProcessError`."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
