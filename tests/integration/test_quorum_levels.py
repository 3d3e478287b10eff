"""A KRaft cluster of the oldest level is raised step by step to the newest, and loses nothing."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from ottla.metadata.levels import METADATA_LEVELS, METADATA_VERSION, NEWEST, OLDEST
from tests.integration.test_quorum_nodes import Node, begun
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.running_cluster import format_node

pytestmark = pytest.mark.slow

CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
CONTROLLER = 100
BROKERS = (1, 2)
RESTARTED_AT = {16: 1, 17: 2}
"""Which broker at which level: they have directories from 17 on."""


class Cluster:
    """A controller, and two brokers that have a replica of every partition."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        controller = f"127.0.0.1:{free_port()}"
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@{controller}",
            "default.replication.factor": "2",
            "num.partitions": "3",
            "broker.session.timeout.ms": "2000",
        }
        for number in (CONTROLLER, *BROKERS):
            features = {METADATA_VERSION: OLDEST}
            format_node(folder / str(number), number, CLUSTER_ID, features)
        own = {"process.roles": "controller", "listeners": f"CONTROLLER://{controller}"}
        settings = {**common, **own, "node.id": str(CONTROLLER)}
        begun(stack, folder / str(CONTROLLER), settings).wait_ready()
        self.addresses = {one: f"127.0.0.1:{free_port()}" for one in BROKERS}
        self.nodes: dict[int, Node] = {}
        for number, address in self.addresses.items():
            own = {"process.roles": "broker", "listeners": f"PLAINTEXT://{address}"}
            # Two directories, so that from level 17 on somebody must say where replicas are.
            second = folder / f"{number}-b"
            format_node(second, number, CLUSTER_ID, features)
            settings = {**common, **own, "node.id": str(number)}
            self.nodes[number] = begun(stack, folder / str(number), settings, second)
        for node in self.nodes.values():
            node.wait_ready()
        self.sent: list[str] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def await_in_sync(self) -> None:
        def is_whole() -> bool:
            with ottla.Admin(self.bootstrap) as admin:
                topics = admin.describe_topics(["t"])
            return all({*one.in_sync} == {*BROKERS} for one in topics[0].partitions)

        wait_until(is_whole)

    def send(self, producer: ottla.Producer, what: str) -> None:
        values = [f"{what}-{number}" for number in range(20)]
        for one in [producer.send("t", value.encode()) for value in values]:
            one.result(PATIENCE_S)
        self.sent += values

    def restart(self, number: int, *, is_killed: bool = False) -> None:
        node = self.nodes[number]
        if is_killed:
            node.close()
        else:
            assert node.stop() == 0
        node.begin()
        node.wait_ready()
        self.await_in_sync()

    def read(self) -> list[str]:
        settings = {"auto.offset.reset": "earliest"}
        with ottla.Consumer(self.bootstrap, "everything", settings=settings) as consumer:
            consumer.subscribe("t")
            found = consumer.consume(len(self.sent), timeout=PATIENCE_S)
        return sorted(one.value.decode() for one in found if one.value is not None)


def test_a_cluster_is_raised_from_the_oldest_level_to_the_newest_and_loses_no_record(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        settings = {"acks": "all"}
        admin = stack.enter_context(ottla.Admin(cluster.bootstrap))
        wait_until(lambda: len(admin.describe_cluster().brokers) == len(BROKERS))
        assert admin.describe_features()[METADATA_VERSION].level == OLDEST
        admin.create_topic("t")
        producer = stack.enter_context(ottla.Producer(cluster.bootstrap, settings=settings))
        cluster.send(producer, "the oldest")
        for one in METADATA_LEVELS:
            if one.level > OLDEST:
                admin.update_features({METADATA_VERSION: one.level})
                cluster.send(producer, one.name)
            if one.level in RESTARTED_AT:
                cluster.restart(RESTARTED_AT[one.level])
        cluster.restart(BROKERS[0], is_killed=True)
        cluster.send(producer, "the end")
        assert cluster.read() == sorted(cluster.sent)
        assert admin.describe_features()[METADATA_VERSION].level == NEWEST
