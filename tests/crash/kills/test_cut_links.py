"""Three real brokers in network namespaces, of both kinds of clusters, whose links are cut under
load.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing.history import check, read_history
from tests.crash.kills.cluster_load import TOPIC, load, make_topic, read_all
from tests.support.network_namespaces import ZOOKEEPER, Machines, machines
from tests.support.patience import wait_until
from tests.support.running_cluster import RunningCluster

pytestmark = [pytest.mark.slow, pytest.mark.long]

BROKERS = (1, 2, 3)

More = Callable[[], None]


@pytest.fixture(params=[True, False], ids=["zookeeper", "quorum"])
def network(request: pytest.FixtureRequest) -> Iterator[Machines]:
    with machines(len(BROKERS), has_zookeeper=request.param) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, network: Machines) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path, grounds=network) as running:
        make_topic(running)
        yield running


def a_leader(cluster: RunningCluster) -> int:
    return cluster.wait_led(TOPIC)[0][0]


def cut_off_a_leader(cluster: RunningCluster, network: Machines, more: More) -> None:
    """From the others and from ZooKeeper, not from its clients: it goes on leading, for a while."""
    leader = a_leader(cluster)
    others = [one for one in (*BROKERS, ZOOKEEPER) if one != leader]
    for one in others:
        network.cut(leader, one)
    cluster.wait_led(TOPIC, without=leader)
    more()
    for one in others:
        network.mend(leader, one)


def cut_a_leader_from_zookeeper(cluster: RunningCluster, network: Machines, more: More) -> None:
    leader = a_leader(cluster)
    network.cut(leader, ZOOKEEPER)
    cluster.wait_led(TOPIC, without=leader)
    more()
    network.mend(leader, ZOOKEEPER)


def silence_a_leader_at_zookeeper(cluster: RunningCluster, network: Machines, more: More) -> None:
    """ZooKeeper's answers arrive, and what it is told does not."""
    leader = a_leader(cluster)
    network.cut_way(leader, ZOOKEEPER)
    cluster.wait_led(TOPIC, without=leader)
    more()
    network.mend_way(leader, ZOOKEEPER)


def cut_off_the_controller(cluster: RunningCluster, network: Machines, more: More) -> None:
    """The leader of the quorum, from the others: they elect another, and it resigns."""
    leader = cluster.wait_active_controller()
    for one in BROKERS:
        if one != leader:
            network.cut(leader, one)
    cluster.wait_active_controller(without=leader)
    cluster.wait_led(TOPIC, without=leader)
    more()
    for one in BROKERS:
        if one != leader:
            network.mend(leader, one)


def cut_a_broker_from_the_others(cluster: RunningCluster, network: Machines, _: More) -> None:
    """It keeps its session, and what it leads: nobody can write there. It leaves the other ISRs."""
    controller = cluster.admin().list_topics(timeout=60).controller_id
    broker, *others = sorted(BROKERS, key=lambda one: one == controller)
    for one in others:
        network.cut(broker, one)

    def is_out() -> bool:
        found = cluster.leaders(TOPIC)
        return any(leader in others and broker not in isr for leader, isr in found.values())

    wait_until(is_out, lambda: f"{broker} is in sync: {cluster.leaders(TOPIC)} {cluster.logs()}")
    for one in others:
        network.mend(broker, one)


OVER_ZOOKEEPER = (
    cut_off_a_leader,
    cut_a_leader_from_zookeeper,
    silence_a_leader_at_zookeeper,
    cut_a_broker_from_the_others,
)
IN_A_QUORUM = (cut_off_a_leader, cut_off_the_controller)


def test_no_acknowledged_record_is_lost_when_a_leader_is_cut_off(
    cluster: RunningCluster, network: Machines, tmp_path: Path
) -> None:
    with load(cluster, tmp_path, "kafka-python") as more:
        more()
        cut_off_a_leader(cluster, network, more)
        cluster.wait_in_sync(TOPIC)
        more()
    history = read_history([tmp_path / "kafka-python"])
    assert check([*history, *read_all(cluster)]) == []


def test_no_acknowledged_record_is_lost_whichever_links_are_cut(
    cluster: RunningCluster, network: Machines, tmp_path: Path, crash_seconds: float
) -> None:
    chance = random.Random(7)
    deeds = OVER_ZOOKEEPER if cluster.has_zookeeper else IN_A_QUORUM
    until_s = time.monotonic() + crash_seconds
    clients = ("kafka-python", "librdkafka")
    with load(cluster, tmp_path, *clients) as more:
        more()
        for number in itertools.count():
            if number >= len(deeds) and time.monotonic() >= until_s:
                break
            deed = deeds[number] if number < len(deeds) else chance.choice(deeds)
            deed(cluster, network, more)
            cluster.wait_in_sync(TOPIC)
            more()
    history = read_history(tmp_path / name for name in clients)
    assert check([*history, *read_all(cluster)]) == []
