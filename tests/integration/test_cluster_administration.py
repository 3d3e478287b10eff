"""What administrators ask of three real brokers by confluent-kafka, of both kinds of clusters."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.grounds import ONE_MACHINE, QUORUM
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningCluster

pytest.importorskip("confluent_kafka")
pytest.importorskip("kazoo.client")
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[ONE_MACHINE, QUORUM], ids=["zookeeper", "quorum"])
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningCluster]:
    # Nobody is killed here, and no busy host is to make a broker lose its session.
    more = {f"{one}_session_timeout_ms": "18000" for one in ("zookeeper", "broker")}
    folder = tmp_path_factory.mktemp("cluster")
    with RunningCluster(folder, grounds=request.param, **more) as running:
        yield running


@pytest.fixture
def admin(cluster: RunningCluster) -> Any:
    return cluster.admin()


def done(futures: dict[Any, Any]) -> list[Any]:
    return [one.result(PATIENCE_S) for one in futures.values()]


def refusal(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as caught:
        done(futures)
    code: int = caught.value.args[0].code()
    return code


def test_topics_are_made_grown_and_deleted_on_all_brokers(
    cluster: RunningCluster, admin: Any
) -> None:
    done(admin.create_topics([NewTopic("grown", 2, 3)]))
    assert refusal(admin.create_topics([NewTopic("grown", 2, 3)])) == (
        KafkaError.TOPIC_ALREADY_EXISTS
    )
    assert refusal(admin.create_topics([NewTopic("four", 1, 4)])) == (
        KafkaError.INVALID_REPLICATION_FACTOR
    )
    placed = NewTopic("placed", 1, replica_assignment=[[3, 1]])
    done(admin.create_topics([placed]))
    assert cluster.wait_in_sync("placed", 2)[0][0] == 3
    done(admin.create_partitions([NewPartitions("grown", 5)]))
    cluster.wait_in_sync("grown", partitions=5)
    done(admin.delete_topics(["grown"]))
    folders = [one.directory for one in cluster.brokers.values()]
    wait_until(
        lambda: not any(found for one in folders for found in one.glob("grown-?")),
        "its partitions are still there",
    )
    wait_until(lambda: "grown" not in admin.list_topics(timeout=PATIENCE_S).topics, "it is known")


def test_settings_reach_every_broker(cluster: RunningCluster, admin: Any) -> None:
    done(admin.create_topics([NewTopic("set", 1, 3, config={"retention.ms": "1000000"})]))
    cluster.wait_in_sync("set")

    def resource(**settings: str) -> ConfigResource:
        entries = [
            ConfigEntry(name.replace("_", "."), text, incremental_operation=AlterConfigOpType.SET)
            for name, text in settings.items()
        ]
        return ConfigResource(ResourceType.TOPIC, "set", incremental_configs=entries)

    done(admin.incremental_alter_configs([resource(retention_ms="2000000")]))
    assert refusal(admin.incremental_alter_configs([resource(retention_ms="x")])) == (
        KafkaError.INVALID_CONFIG
    )

    def seen_by(address: str) -> str:
        from confluent_kafka.admin import AdminClient

        one = AdminClient({"bootstrap.servers": address})
        (found,) = done(one.describe_configs([ConfigResource(ResourceType.TOPIC, "set")]))
        value: str = found["retention.ms"].value
        return value

    for broker in cluster.brokers.values():
        wait_until(lambda: seen_by(broker.address) == "2000000", "a broker has not heard")  # noqa: B023


def test_leadership_returns_to_the_preferred_broker_when_it_is_asked_for(
    cluster: RunningCluster, admin: Any
) -> None:
    done(admin.create_topics([NewTopic("led", 1, replica_assignment=[[2, 3, 1]])]))
    cluster.wait_in_sync("led")
    place = TopicPartition("led", 0)
    found = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(PATIENCE_S)
    assert found[place].code() == KafkaError.ELECTION_NOT_NEEDED
    cluster.brokers[2].stop()
    cluster.wait_led("led", without=2)
    cluster.brokers[2].begin()
    cluster.brokers[2].wait_ready()
    cluster.wait_in_sync("led")
    again = cluster.admin()
    found = again.elect_leaders(ElectionType.PREFERRED, [place]).result(PATIENCE_S)
    assert found[place] is None
    cluster.wait_led_by("led", 2)
