"""Three real brokers, over a real ZooKeeper or a quorum of their own, killed and paused under load,
and judged afterwards.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing.history import check, read_history
from tests.compat.java import absence as absence_of_java
from tests.crash.kills.cluster_load import TOPIC, load, make_topic, read_all
from tests.support.cluster_clients import CLIENTS
from tests.support.grounds import ONE_MACHINE, QUORUM
from tests.support.running_cluster import RunningCluster

pytestmark = pytest.mark.slow


@pytest.fixture(params=[ONE_MACHINE, QUORUM], ids=["zookeeper", "quorum"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path, grounds=request.param) as running:
        make_topic(running)
        yield running


# What is done to the cluster while it is at work


def kill_a_leader(cluster: RunningCluster, more: Callable[[], None]) -> None:
    leader = cluster.wait_led(TOPIC)[0][0]
    cluster.brokers[leader].kill()
    cluster.wait_led(TOPIC, without=leader)
    more()
    cluster.brokers[leader].begin()
    cluster.brokers[leader].wait_ready()


def pause_a_leader(cluster: RunningCluster, more: Callable[[], None]) -> None:
    """For longer than its session lasts: it must not lead when it wakes."""
    leader = cluster.wait_led(TOPIC)[0][0]
    cluster.brokers[leader].pause()
    cluster.wait_led(TOPIC, without=leader)
    more()
    cluster.brokers[leader].go_on()


def stop_a_leader(cluster: RunningCluster, more: Callable[[], None]) -> None:
    """With SIGTERM: others lead before it is gone."""
    leader = cluster.wait_led(TOPIC)[0][0]
    assert cluster.brokers[leader].stop() == 0
    cluster.wait_led(TOPIC, without=leader)
    more()
    cluster.brokers[leader].begin()
    cluster.brokers[leader].wait_ready()


def restart_zookeeper(cluster: RunningCluster, more: Callable[[], None]) -> None:
    cluster.zookeeper.kill()
    cluster.zookeeper.start()


def kill_all_at_once(cluster: RunningCluster, more: Callable[[], None]) -> None:
    """No controller is left, and then a majority of them is back, and then all."""
    for one in cluster.brokers.values():
        one.kill()
    for one in cluster.brokers.values():
        one.begin()
    for one in cluster.brokers.values():
        one.wait_ready()


DEEDS = (kill_a_leader, pause_a_leader, stop_a_leader)


def deeds_of(cluster: RunningCluster) -> "tuple[Callable[..., None], ...]":
    return (*DEEDS, restart_zookeeper if cluster.has_zookeeper else kill_all_at_once)


def test_no_acknowledged_record_is_lost_when_a_leader_is_killed(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    with load(cluster, tmp_path, "kafka-python") as more:
        more()
        kill_a_leader(cluster, more)
        cluster.wait_in_sync(TOPIC)
        more()
    history = read_history([tmp_path / "kafka-python"])
    assert check([*history, *read_all(cluster)]) == []


@pytest.mark.long
def test_no_acknowledged_record_is_lost_whatever_happens_to_brokers_and_controllers(
    cluster: RunningCluster, tmp_path: Path, crash_seconds: float
) -> None:
    chance, deeds = random.Random(7), deeds_of(cluster)
    until_s = time.monotonic() + crash_seconds
    clients = [one for one in CLIENTS if one != "java" or absence_of_java() is None]
    with load(cluster, tmp_path, *clients) as more:
        more()
        for number in itertools.count():
            if number >= len(deeds) and time.monotonic() >= until_s:
                break
            deed = deeds[number] if number < len(deeds) else chance.choice(deeds)
            deed(cluster, more)
            cluster.wait_in_sync(TOPIC)
            more()
    history = read_history(tmp_path / name for name in clients)
    assert check([*history, *read_all(cluster)]) == []
