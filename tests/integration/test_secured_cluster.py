"""Three brokers that reach each other over SASL_SSL, over a real ZooKeeper, with real clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.registries import paths
from ottla.registries.brokers import decode_broker
from tests.support.patience import PATIENCE_S
from tests.support.running_cluster import RunningCluster, Secured, Silence, wait_until

pytest.importorskip("confluent_kafka")
pytest.importorskip("cryptography")
pytest.importorskip("kazoo.client")
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient

from ottla.testing.certificates import Certificates

pytestmark = pytest.mark.slow

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROTOCOLS = {"CLIENTS": "SASL_PLAINTEXT", "BROKERS": "SASL_SSL"}


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": PROTOCOLS["CLIENTS"],
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def secured(folder: Path) -> Secured:
    """Brokers log in by PLAIN, as `broker`; so does the administrator."""
    made = Certificates(folder)
    names = "listener.name."
    settings = {
        "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{names}brokers.sasl.enabled.mechanisms": "PLAIN",
        f"{names}clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{names}brokers.plain.sasl.jaas.config": (
            f'{PLAIN} required username="broker" password="of all" user_broker="of all";'
        ),
        f"{names}clients.plain.sasl.jaas.config": f'{PLAIN} required user_admin="a secret";',
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.location": str(made.authority),
        f"{names}brokers.ssl.client.auth": "required",
        # Nobody but the one that is killed is to lose its session on a busy host.
        "zookeeper.session.timeout.ms": "9000",
    }
    return Secured(
        protocol=PROTOCOLS["CLIENTS"], settings=settings, client=login("admin", "a secret")
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("secured")
    with RunningCluster(folder, secured=secured(folder / "certificates")) as running:
        yield running


def done(futures: dict[Any, Any]) -> None:
    for one in futures.values():
        one.result(PATIENCE_S)


def send(settings: dict[str, str], topic: str, values: range) -> None:
    """With acks=all, until each is acknowledged."""
    refused: list[Any] = []
    producer = Producer({**settings, "enable.idempotence": True}, logger=Silence())
    for value in values:
        producer.produce(
            topic,
            str(value),
            partition=0,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert refused == []


def read(settings: dict[str, str], topic: str, count: int) -> list[int]:
    reading = {"group.id": "readers", "auto.offset.reset": "earliest", **settings}
    consumer = Consumer(reading, logger=Silence())
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []

    def has_all() -> bool:
        found.extend(
            int(one.value()) for one in consumer.consume(count, timeout=0.2) if not one.error()
        )
        return len(found) >= count

    wait_until(has_all, lambda: f"only {len(found)} of {count} records")
    consumer.close()
    return found


def test_brokers_register_every_listener_with_its_protocol(cluster: RunningCluster) -> None:
    zookeeper = KazooClient(cluster.zookeeper.address)
    zookeeper.start(timeout=PATIENCE_S)
    try:
        for broker in cluster.brokers.values():
            content, _ = zookeeper.get(paths.broker_path(broker.id))
            found = decode_broker(broker.id, content)
            assert {one.listener: one.security_protocol for one in found.endpoints} == PROTOCOLS
            clients = found.endpoint("CLIENTS")
            assert clients is not None
            assert clients.port == broker.port
    finally:
        zookeeper.stop()
        zookeeper.close()


def test_what_is_acknowledged_by_all_survives_a_broker(cluster: RunningCluster) -> None:
    settings = cluster.client_settings()
    admin = cluster.admin()
    done(admin.create_topics([NewTopic("orders", 1, 3)]))
    cluster.wait_in_sync("orders")
    send(settings, "orders", range(100))
    leader, _ = cluster.leaders("orders")[0]
    cluster.brokers[leader].kill()
    cluster.wait_led("orders", without=leader)
    send(settings, "orders", range(100, 200))
    cluster.brokers[leader].begin()
    cluster.brokers[leader].wait_ready()
    cluster.wait_in_sync("orders")
    assert read(settings, "orders", 200) == list(range(200))
