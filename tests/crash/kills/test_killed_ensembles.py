"""Three real brokers over a ZooKeeper of three processes, whose leader is killed under load."""

from pathlib import Path

import pytest

import ottla
from ottla.testing.history import check, read_history
from tests.crash.kills.cluster_load import TOPIC, load, make_topic, read_all
from tests.support.running_cluster import RunningCluster
from tests.support.zookeeper_ensemble import Ensemble

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_cluster_continues_when_the_leader_of_its_zookeeper_is_killed(tmp_path: Path) -> None:
    ensemble = Ensemble()
    with RunningCluster(tmp_path, grounds=ensemble) as cluster:
        make_topic(cluster)
        with load(cluster, tmp_path, "kafka-python") as more:
            more()
            first = ensemble.wait_leader()
            first.kill()
            assert ensemble.wait_leader() is not first
            more()
            # The controller writes and watches: a topic is made, and a broker's death is seen.
            with ottla.Admin(cluster.bootstrap) as admin:
                admin.create_topic("later", partitions=3, replication_factor=3)
            cluster.wait_in_sync("later")
            leader = cluster.wait_led(TOPIC)[0][0]
            cluster.brokers[leader].kill()
            cluster.wait_led(TOPIC, without=leader)
            first.start()
            cluster.brokers[leader].begin()
            cluster.brokers[leader].wait_ready()
            cluster.wait_in_sync(TOPIC)
            more()
        history = read_history([tmp_path / "kafka-python"])
        assert check([*history, *read_all(cluster)]) == []
