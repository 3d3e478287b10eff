"""What keeps `ottla serve` out of a cluster: a line with the fix; nothing deleted, nothing led."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.zookeeper import paths
from tests.support.ports import free_port
from tests.support.running_cluster import RunningBroker, over
from tests.support.zookeeper_server import TICK_MS, TIMEOUT_S, ZooKeeper, zookeeper_client

pytest.importorskip("kazoo.client")

pytestmark = pytest.mark.slow

OTHER_CLUSTER = "I_0MTxdmTk-RWI-AxmfAIg"
SHORT_MS = 4000
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "min.insync.replicas": "1",
    "default.replication.factor": "1",
}

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper"), TICK_MS) as running:
        yield running


@pytest.fixture(scope="module")
def broker(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """Broker 1, which has led a partition with a record, and does not run."""
    directory = tmp_path_factory.mktemp("broker") / "data"
    one = RunningBroker(1, directory, over(zookeeper), ALONE)
    try:
        one.begin()
        one.wait_ready()
        with ottla.Admin(one.address) as admin, ottla.Producer(one.address) as producer:
            admin.create_topic("orders", partitions=1)
            producer.send("orders", value=b"kept").result(TIMEOUT_S)
        assert one.stop() == 0
        yield one
    finally:
        one.close()


def files_of(directory: Path) -> Files:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def refusal(directory: Path, connect: str, **settings: str) -> str:
    """What is said of a broker that cannot start; its directory stays what it was."""
    before = files_of(directory)
    given = {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(SHORT_MS),
        "zookeeper.connection.timeout.ms": str(1000 * int(TIMEOUT_S)),
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    options = [word for one in given.items() for word in ("-o", "=".join(one))]
    arguments = ["serve", str(directory), "--listen", f"127.0.0.1:{free_port()}", *options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    lines = [one for one in result.stderr.splitlines() if one.startswith("ottla: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert files_of(directory) == before
    return lines[0].removeprefix("ottla: ")


def registered(zookeeper: ZooKeeper) -> list[str]:
    with zookeeper_client(zookeeper.address) as client:
        found: list[str] = client.get_children(paths.BROKER_IDS)
        return found


def test_a_directory_of_another_broker_of_the_cluster(
    zookeeper: ZooKeeper, broker: RunningBroker
) -> None:
    said = refusal(broker.directory, zookeeper.address, broker_id="2")
    assert said == (
        f"{broker.directory} belongs to broker 1, but broker.id is 2; change the setting, or name "
        "another directory"
    )
    assert registered(zookeeper) == []


def test_a_directory_of_another_cluster(zookeeper: ZooKeeper, broker: RunningBroker) -> None:
    with zookeeper_client(zookeeper.address) as client:
        content = json.dumps({"version": "1", "id": OTHER_CLUSTER}).encode()
        client.create(f"/other{paths.CLUSTER_ID}", content, makepath=True)
        said = refusal(broker.directory, f"{zookeeper.address}/other", broker_id="1")
        assert f"/other: it has cluster {OTHER_CLUSTER}, but the data directory belongs to " in said
        assert said.endswith("; name the ZooKeeper of that cluster")
        assert client.get_children(f"/other{paths.BROKER_IDS}") == []


def test_a_chroot_that_does_not_exist(zookeeper: ZooKeeper, broker: RunningBroker) -> None:
    connect = f"{zookeeper.address}/nowhere"
    assert refusal(broker.directory, connect, broker_id="1") == (
        f"zookeeper.connect={connect}: there is no node /nowhere; create it, or name the cluster's "
        "chroot"
    )


def test_a_broker_id_that_is_taken(
    zookeeper: ZooKeeper, broker: RunningBroker, tmp_path: Path
) -> None:
    broker.begin()
    broker.wait_ready()
    try:
        said = refusal_of_new(tmp_path / "data", zookeeper)
        assert said == (
            f"broker.id=1: a broker at PLAINTEXT://{broker.address} has this id in the cluster; "
            "choose another, or stop it"
        )
        assert registered(zookeeper) == ["1"]
        with ottla.Consumer(broker.address, "g") as consumer:
            consumer.assign({ottla.TopicPartition("orders", 0): 0})
            (record,) = consumer.consume(1, timeout=TIMEOUT_S)
            assert record.value == b"kept"
    finally:
        assert broker.stop() == 0


def refusal_of_new(directory: Path, zookeeper: ZooKeeper) -> str:
    """Its directory is made, and its port taken, before its id is found to be another's."""
    directory.mkdir()
    port = free_port()
    arguments = ["serve", str(directory), "--listen", f"127.0.0.1:{port}"]
    for one in (
        f"zookeeper.connect={zookeeper.address}",
        f"zookeeper.session.timeout.ms={3 * SHORT_MS}",
        "broker.id=1",
    ):
        arguments += ["-o", one]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    with socket.create_server(("127.0.0.1", port)):
        pass  # nobody listens there any more
    (line,) = (one for one in result.stderr.splitlines() if one.startswith("ottla: "))
    return line.removeprefix("ottla: ")


def test_an_inter_broker_version_that_is_not_known(
    zookeeper: ZooKeeper, broker: RunningBroker
) -> None:
    said = refusal(
        broker.directory,
        zookeeper.address,
        broker_id="1",
        inter_broker_protocol_version="4.0",
    )
    assert said.startswith("inter.broker.protocol.version=4.0: ")
    assert "set one from 0.10.0 to 3.9" in said
    assert registered(zookeeper) == []
