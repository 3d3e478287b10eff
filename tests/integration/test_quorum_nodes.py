"""Nodes of a KRaft cluster as processes: roles apart, one that becomes three, refusals."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from ottla.base.addresses import parse_address
from ottla.base.files import OsFileSystem
from ottla.client.administration.quorum_status import QuorumStatus, quorum_status
from ottla.client.connecting.cluster import ClientSettings, SocketTransport
from ottla.storage.directory.owner_note import owner_of
from tests.integration.cli.support import ENVIRONMENT, run_ottla
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.running_cluster import format_node

pytestmark = pytest.mark.slow

FAST = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
}


class Node:
    """`ottla serve` on a directory, or more of them, with settings."""

    def __init__(self, directory: Path, settings: dict[str, str], *more: Path) -> None:
        self.directory = directory
        self.more = more
        self.settings = {**FAST, **settings}
        self.output = directory.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        options = [word for one in self.settings.items() for word in ("-o", "=".join(one))]
        options += [word for one in self.more for word in ("-d", str(one))]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "serve", str(self.directory), *options],
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
            )

    def wait_ready(self) -> None:
        assert self.process is not None
        wait_until(
            lambda: f"pid={self.process.pid} " in self.output.read_text(),  # type: ignore[union-attr]
            lambda: self.output.read_text(),
        )

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def begun(stack: ExitStack, directory: Path, settings: dict[str, str], *more: Path) -> Node:
    node = Node(directory, settings, *more)
    stack.callback(node.close)
    node.begin()
    return node


def status_of(*controllers: str) -> QuorumStatus:
    addresses = [parse_address(one) for one in controllers]
    return quorum_status(addresses, SocketTransport(ClientSettings()))


def send_and_read(address: str, values: list[str], group: str) -> list[str]:
    with ottla.Producer(address, settings={"acks": "all"}) as producer:
        for value in values:
            producer.send("t", value.encode()).result(PATIENCE_S)
    with ottla.Consumer(address, group, settings={"auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe("t")
        found = consumer.consume(len(values), timeout=PATIENCE_S)
        return sorted(one.value.decode() for one in found if one.value is not None)


def test_a_controller_and_brokers_of_their_own_are_a_cluster(
    stack: ExitStack, tmp_path: Path
) -> None:
    controller = f"127.0.0.1:{free_port()}"
    common = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"100@{controller}",
        "num.partitions": "2",
        "default.replication.factor": "2",
    }
    cluster_id = "AAECAwQFBgcICQoLDA0ODw"
    for number in (100, 1, 2):
        format_node(tmp_path / str(number), number, cluster_id)
    begun(
        stack,
        tmp_path / "100",
        {
            **common,
            "node.id": "100",
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{controller}",
        },
    ).wait_ready()
    brokers = []
    for number in (1, 2):
        address = f"127.0.0.1:{free_port()}"
        own = {
            "node.id": str(number),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{address}",
        }
        brokers.append((begun(stack, tmp_path / str(number), {**common, **own}), address))
    for node, _ in brokers:
        node.wait_ready()
    address = brokers[0][1]
    with ottla.Admin(address) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 2)
        admin.create_topic("t")
    assert send_and_read(address, ["a", "b"], "g") == ["a", "b"]
    status = status_of(controller)
    assert ([one.node for one in status.voters], status.leader) == ([100], 100)
    assert {one.node for one in status.replicas if not one.is_voter} == {1, 2}
    assert run_ottla("topics", "list", controller).returncode == 2, "it has no topics to show"
    # Its leaderships move before it ends, and the brokers go on without their controller.
    assert brokers[1][0].stop() == 0
    with ottla.Admin(address) as admin:
        leaders = {one.leader for one in admin.describe_topics(["t"])[0].partitions}
    assert leaders == {1}


def test_a_broker_by_itself_becomes_the_first_of_three_without_a_copy(
    stack: ExitStack, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    alone = begun(stack, tmp_path / "1", {"node.id": "1", "listeners": f"PLAINTEXT://{address}"})
    alone.wait_ready()
    with ottla.Admin(address) as admin:
        admin.create_topic("t", partitions=1)
        admin.alter_configs(ottla.ResourceKind.TOPIC, "t", {"retention.ms": "-1"})
        (before,) = admin.describe_topics(["t"])
    assert send_and_read(address, ["a", "b"], "g") == ["a", "b"]
    assert alone.stop() == 0
    inode = os.stat(tmp_path / "1" / "t-0" / f"{0:020}.log").st_ino
    controllers = {one: f"127.0.0.1:{free_port()}" for one in (1, 2, 3)}
    joins = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
        "controller.quorum.auto.join.enable": "true",
    }
    addresses = {1: address, 2: f"127.0.0.1:{free_port()}", 3: f"127.0.0.1:{free_port()}"}

    def joined(number: int) -> Node:
        listeners = f"PLAINTEXT://{addresses[number]},CONTROLLER://{controllers[number]}"
        own = {"node.id": str(number), "listeners": listeners}
        return begun(stack, tmp_path / str(number), {**joins, **own})

    first = joined(1)
    first.wait_ready()
    assert os.stat(tmp_path / "1" / "t-0" / f"{0:020}.log").st_ino == inode
    with ottla.Admin(address) as admin:
        (now,) = admin.describe_topics(["t"])
        assert (now.topic_id, admin.topic_overrides(["t"])["t"]) == (
            before.topic_id,
            {"retention.ms": "-1"},
        )
    text = (tmp_path / "1" / "meta.properties").read_text()
    cluster_id = next(one.partition("=")[2] for one in text.splitlines() if "cluster.id" in one)
    for number in (2, 3):
        format_node(tmp_path / str(number), number, cluster_id)
        joined(number).wait_ready()
    wait_until(lambda: {one.node for one in status_of(controllers[1]).voters} == {1, 2, 3})
    assert send_and_read(addresses[2], ["c"], "g") == ["c"], "the group is where it was"
    spread = ("--to", "1,2,3", "--replicas", "3", "--yes")
    moved = run_ottla("cluster", "reassign", address, "t", "__consumer_offsets", *spread)
    assert moved.returncode == 0, moved.stderr
    first.process.kill()  # type: ignore[union-attr]
    first.process.wait()  # type: ignore[union-attr]
    with ottla.Admin(addresses[2]) as admin:
        wait_until(lambda: admin.describe_topics(["t"])[0].partitions[0].leader in (2, 3))
    assert send_and_read(addresses[2], ["d"], "others")[:1] == ["a"], "no record is lost"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"controller.quorum.voters": "1@127.0.0.1:9,2@127.0.0.1:8"}, "not formatted"),
        ({"zookeeper.connect": "127.0.0.1:1"}, "metadata from controllers, not from"),
        ({"controller.listener.names": "OTHER"}, "does not know CONTROLLER"),
    ],
)
def test_a_node_that_cannot_belong_to_a_cluster_says_why_in_one_line(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9",
        "controller.listener.names": "CONTROLLER",
        **settings,
    }
    options = [word for one in given.items() for word in ("-o", "=".join(one))]
    result = run_ottla("serve", tmp_path / "new", *options)
    assert result.returncode == 2
    (line,) = [one for one in result.stderr.splitlines() if one.startswith("ottla: ")]
    assert said in line
    assert not (tmp_path / "new").exists()


def test_a_minority_decides_nothing_and_says_so(stack: ExitStack, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    made = run_ottla("cluster", "up", "--brokers", "3", "--data", folder, "--quiet")
    try:
        assert made.returncode == 0, made.stderr
        known = json.loads((folder / "cluster.json").read_text())["brokers"]
        for one in known[1:]:
            owner = owner_of(OsFileSystem(), one["directory"])
            assert owner is not None
            os.kill(owner.pid, 9)
        first = f"127.0.0.1:{known[0]['port']}"
        refused = run_ottla("topics", "create", first, "t", "--partitions", "1", "--timeout", "3s")
        assert refused.returncode != 0
        log = Path(f"{known[0]['directory']}.log")
        wait_until(lambda: "2 of its 3 voters must be up" in log.read_text(), log.read_text)
    finally:
        run_ottla("cluster", "down", "--data", folder)
