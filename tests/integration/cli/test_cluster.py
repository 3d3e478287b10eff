"""`ottla cluster`: three brokers on this machine by one command, also with their ZooKeeper."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.cluster.local import read_cluster
from ottla.cli.main import cli
from tests.integration.cli.support import run_ottla
from tests.support.patience import PATIENCE_S, Found, wait_until
from tests.support.zookeeper_server import ZooKeeper

pytestmark = pytest.mark.slow

ROLES = ("leader", "follower")
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class Cluster:
    """Commands on one folder."""

    def __init__(self, folder: Path, *, has_zookeeper: bool = False) -> None:
        self.folder = str(folder)
        self.has_zookeeper = has_zookeeper

    def run(self, *words: str, may_fail: bool = False) -> str:
        """`DIR` stands for the folder."""
        arguments = [self.folder if word == "DIR" else word for word in words]
        result = CliRunner().invoke(cli, ["cluster", *arguments])
        assert may_fail or result.exit_code == 0, result.output
        return result.output

    def up(self, *more: str, brokers: int = 3) -> str:
        settings = [word for one in SETTINGS.items() for word in ("-o", "=".join(one))]
        words = ("up", "--brokers", str(brokers), "--data", "DIR", "--quiet", *settings, *more)
        if self.has_zookeeper and "--zookeeper" not in more:
            words = (*words, "--zookeeper")
        return self.run(*words).strip()

    def objects(self, kind: str) -> list[dict[str, Any]]:
        lines = self.run("status", "DIR", "--json", may_fail=True).splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in found if one["type"] == kind]

    def wait_until(self, is_so: Callable[[], Found]) -> Found:
        return wait_until(is_so, lambda: self.run("status", "DIR", may_fail=True))

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """None while no broker answers."""
        return [one for one in self.objects("partition") if one["topic"] == topic]

    def wait_all(self, topic: str, count: int, is_so: Callable[[dict[str, Any]], bool]) -> None:
        """Until it is so of all of a topic's partitions, of which there are as many."""
        self.wait_until(lambda: [is_so(one) for one in self.partitions(topic)] == [True] * count)

    def is_all_under_replicated(self) -> bool:
        found = self.objects("partition")
        return bool(found) and all(one["is_under_replicated"] for one in found)

    def stuck(self, target: str, topic: str) -> list[dict[str, Any]]:
        output = CliRunner().invoke(cli, ["explain", "stuck", target, topic, "--json"]).output
        found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return [one for one in found if one["type"] == "replica"]

    def kill(self, broker: int) -> None:
        known = read_cluster(Path(self.folder))
        assert known is not None
        owner = known.brokers[broker - 1].owner
        assert owner is not None
        os.kill(owner.pid, signal.SIGKILL)


@pytest.fixture(params=[True, False], ids=["zookeeper", "quorum"])
def any_cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param:
        pytest.importorskip("pyspark")
        pytest.importorskip("kazoo")
    one = Cluster(tmp_path / "cluster", has_zookeeper=request.param)
    yield one
    one.run("down", "--data", "DIR", may_fail=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("pyspark")
    pytest.importorskip("kazoo")
    one = Cluster(tmp_path / "cluster", has_zookeeper=True)
    yield one
    one.run("down", "--data", "DIR", may_fail=True)


def send(addresses: str, values: list[str], transactional_id: str | None = None) -> None:
    settings = {} if transactional_id is None else {"transactional.id": transactional_id}
    with ottla.Producer(addresses, settings=settings) as producer:
        if transactional_id is None:
            for value in values:
                producer.send("t", value=value.encode())
            return
        with producer.transaction():
            for value in values:
                producer.send("t", value=value.encode())


def read(addresses: str, group: str, count: int) -> list[str]:
    """As a new member of a group, which commits what it has read."""
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with ottla.Consumer(addresses, group, settings=settings) as consumer:
        consumer.subscribe("t")
        found = consumer.consume(count, timeout=PATIENCE_S)
        return sorted(one.value.decode() for one in found if one.value is not None)


def test_a_cluster_whose_zookeeper_was_killed_says_so_and_continues_when_it_is_back(
    cluster: Cluster,
) -> None:
    addresses = cluster.up("-o", "min.insync.replicas=1", brokers=1)
    with ottla.Admin(addresses) as admin:
        admin.create_topic("t", partitions=1)
    cluster.wait_all("t", 1, lambda one: one["leader"] == 1)
    send(addresses, ["a"])
    known = read_cluster(Path(cluster.folder))
    assert known is not None
    assert known.zookeeper.pid is not None
    os.kill(known.zookeeper.pid, signal.SIGKILL)
    log = Path(cluster.folder) / "broker-1.log"
    wait_until(lambda: "ZooKeeper cannot be reached; this broker leads" in log.read_text())
    shown = run_ottla("cluster", "status", cluster.folder, "t")
    assert shown.returncode == 1, "what brokers heard last is shown, and that it is no more"
    assert shown.stderr.startswith("warning: the cluster has no controller: this is the last state")
    assert [one.split()[:2] for one in shown.stdout.splitlines() if one.startswith("t-")] == [
        ["t-0", "1"]
    ]
    listed = run_ottla("cluster", "reassign", cluster.folder)
    assert (
        listed.returncode,
        "the cluster has no controller: see the brokers' logs" in listed.stderr,
    ) == (1, True)
    assert cluster.up(brokers=1) == addresses, "only ZooKeeper is started"
    cluster.wait_all("t", 1, lambda one: one["leader"] == 1)
    wait_until(lambda: "ZooKeeper is reachable again" in log.read_text())
    assert read(addresses, "g", 1) == ["a"]


def test_three_brokers_serve_on_when_one_is_killed_and_it_comes_back(any_cluster: Cluster) -> None:
    cluster = any_cluster
    addresses = cluster.up()
    assert len(addresses.split(",")) == 3
    assert cluster.up() == addresses, "what runs stays as it is"
    with ottla.Admin(addresses) as admin:
        admin.create_topic("t", partitions=3)
    cluster.wait_until(
        lambda: sorted(one["leader"] for one in cluster.partitions("t")) == [1, 2, 3]
    )
    send(addresses, ["a", "b"])
    send(addresses, ["c", "d"], "tx")
    assert read(addresses, "g", 4) == ["a", "b", "c", "d"]
    # Group, transactions, partitions: whatever the broker has led another one takes over.
    cluster.kill(2)
    cluster.wait_all("t", 3, lambda one: one["leader"] in (1, 3))
    send(addresses, ["e"])
    send(addresses, ["f"], "tx")
    assert read(addresses, "g", 2) == ["e", "f"], "the group's offsets are where they were"
    cluster.wait_until(cluster.is_all_under_replicated)
    doctor = CliRunner().invoke(cli, ["doctor", addresses])
    assert "broker 2: is not up" in doctor.output
    stuck = CliRunner().invoke(cli, ["explain", "stuck", addresses, "t", "-p", "0"])
    assert "t-0: the replica of broker 2 is not in sync: the broker is not up" in stuck.output
    assert cluster.up() == addresses, "it keeps its port"
    cluster.wait_all("t", 3, lambda one: len(one["in_sync"]) == 3)
    # Moves, and the end.
    output = cluster.run("reassign", "DIR", "t", "--to", "1,3", "--replicas", "2", "--yes")
    assert output.endswith("moved 3 partitions\n")
    cluster.wait_all("t", 3, lambda one: sorted(one["replicas"]) == [1, 3])
    assert read(addresses, "others", 6) == ["a", "b", "c", "d", "e", "f"]
    assert cluster.run("down", "--data", "DIR").startswith("stopped 3 brokers")
    assert "nothing runs" in cluster.run("down", "--data", "DIR", may_fail=True)


BLOCK = 500_000
BLOCKS = 64
SLOW, FAST = 1 << 14, 1 << 30
"""Bytes a second: at the slow rate the copy would take half an hour."""


def test_a_throttled_move_is_slow_until_more_is_allowed_on_a_zookeeper_that_runs_already(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        connect = f"{zookeeper.address}/a/chroot"
        refused = cluster.run(
            "up", "--brokers", "2", "--data", "DIR", "--zookeeper", connect, may_fail=True
        )
        assert "there is no node /a/chroot; create it" in refused
        zookeeper.make("/a/chroot")
        addresses = cluster.up("--zookeeper", connect, brokers=2)
        with ottla.Admin(addresses) as admin:
            admin.create_topic("t", partitions=1, replication_factor=1)
            (partition,) = cluster.wait_until(lambda: cluster.partitions("t"))
            (old,) = partition["replicas"]
            new = 3 - old
            with ottla.Producer(addresses) as producer:
                for _ in range(BLOCKS):
                    producer.send("t", value=os.urandom(BLOCK))
            move = ("reassign", "DIR", "t", "--to", str(new), "--yes")
            assert "the moves have begun" in cluster.run(
                *move, "--throttle", str(SLOW), "--no-wait"
            )
            (found,) = cluster.wait_until(
                lambda: [one for one in cluster.stuck(addresses, "t") if one["since_ms"]]
            )
            assert (found["broker"], found["why"], found["is_adding"]) == (new, "throttled", True)
            assert (found["throttled_rate"], 0 < found["lag"] < BLOCKS + 1) == (SLOW, True)
            assert f"to come {new}" in cluster.run("reassign", "DIR")
            rates = {f"{one}.replication.throttled.rate": str(FAST) for one in ROLES}
            for broker in (old, new):
                admin.alter_configs(ottla.ResourceKind.BROKER, str(broker), rates)
            cluster.wait_all("t", 1, lambda one: one["in_sync"] == [new])
            # A move that is waited for takes its throttle back.
            back = cluster.run(
                "reassign", "DIR", "t", "--to", str(old), "--yes", "--throttle", "1Gi"
            )
            assert back.endswith("moved 1 partition\n")
            # Brokers hear of settings over ZooKeeper one after the other.
            throttles = {f"{one}.replication.throttled.replicas" for one in ROLES}
            cluster.wait_until(
                lambda: throttles.isdisjoint(admin.topic_overrides(["t"])["t"]),
            )
        cluster.run("down", "--data", "DIR")
        other = cluster.run(
            "up", "--data", "DIR", "--zookeeper", "127.0.0.1:1/other", may_fail=True
        )
        assert f"its brokers are registered in {connect}" in other
        assert zookeeper.is_running, "it is somebody else's"


def test_voters_come_and_go_features_change_and_a_lost_majority_is_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster")
    try:
        addresses = cluster.up()
        with ottla.Admin(addresses) as admin:
            admin.create_topic("t", partitions=3, configs={"min.insync.replicas": 3})
            _change_voters(cluster, admin)
        doctor = CliRunner().invoke(cli, ["doctor", cluster.folder, "--json"])
        assert doctor.exit_code == 0, doctor.output
        _lose_a_broker_and_the_majority(cluster)
    finally:
        cluster.run("down", "--data", "DIR", may_fail=True)


def _change_voters(cluster: Cluster, admin: ottla.Admin) -> None:
    (quorum,) = cluster.objects("quorum")
    assert {one["node"] for one in cluster.objects("voter")} == {1, 2, 3}
    assert [one["is_controller"] for one in cluster.objects("broker")].index(True) == (
        quorum["leader"] - 1
    ), "the controller is who leads the quorum"
    assert "node 9 is no voter of the quorum; voters: 1, 2, 3" in cluster.run(
        "remove-controller", "DIR", "9", may_fail=True
    )
    other = quorum["leader"] % 3 + 1
    removed = cluster.run("remove-controller", "DIR", str(other))
    assert f"node {other} is no voter any more\n" in removed
    assert f"node {other} is up: with controller.quorum.auto.join.enable it soon votes" in removed
    # It joins again by controller.quorum.auto.join.enable.
    cluster.wait_until(lambda: len(cluster.objects("voter")) == 3)
    assert cluster.run("features", "DIR", "--downgrade", "transaction.version=1") == (
        "changed transaction.version to 1\n"
    )
    wait_until(lambda: admin.describe_features()["transaction.version"].level == 1)
    refused = cluster.run("features", "DIR", "--upgrade", "metadata.version=3.4-IV0", may_fail=True)
    assert "Can't downgrade the version of this feature" in refused
    assert "broker 3 is up: stop it first" in cluster.run("unregister", "DIR", "3", may_fail=True)
    assert "controller 3 because it is part of the voter set" in cluster.run(
        "unregister", "DIR", "3", "--controller", may_fail=True
    )


def _lose_a_broker_and_the_majority(cluster: Cluster) -> None:
    (quorum,) = cluster.objects("quorum")
    lost = quorum["leader"] % 3 + 1
    cluster.kill(lost)

    def complaints() -> set[tuple[str, str]]:
        output = CliRunner().invoke(cli, ["doctor", cluster.folder, "--json"]).output
        found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {(one["kind"], one["where"]) for one in found[:-1]}

    wait_until(
        lambda: (
            {("silent_voter", f"voter {lost}"), ("missing_broker", f"broker {lost}")}
            <= complaints()
        )
    )
    (row,) = [one for one in cluster.objects("broker") if one["broker"] == lost]
    assert (row["address"], row["is_fenced"]) == (None, True)
    assert {one["why"] for one in cluster.stuck(cluster.folder, "t")} == {"not_up"}
    assert [one["eligible"] for one in cluster.partitions("t")] == [[lost]] * 3, "ELR"
    cluster.kill(quorum["leader"])
    cluster.wait_until(
        lambda: "no controller leads the quorum" in cluster.run("status", "DIR", may_fail=True)
    )
    leader = quorum["leader"]
    assert {("no_quorum", "the quorum"), ("silent_broker", f"broker {leader}")} <= complaints()
    assert ("silent_leader", leader) in {
        (one["why"], one["broker"]) for one in cluster.stuck(cluster.folder, "t")
    }
