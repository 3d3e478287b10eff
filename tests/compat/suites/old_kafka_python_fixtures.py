"""Fixtures for the suites of kafka-python 2.0 and 1.4, whose own start Kafka and ZooKeeper.

Copied into a suite as its `conftest.py` and `fixtures.py`; `BROKER` names the broker that is there.
"""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

ADDRESS = os.environ.get("BROKER", "")
ANSWER_S = 10
PARTITIONS = 4


class ZookeeperFixture:
    """Asked for by test cases of 1.4, and never needed."""

    @classmethod
    def instance(cls, *_: object, **__: object) -> "ZookeeperFixture":
        return cls()

    def close(self) -> None:
        pass


class KafkaFixture(ZookeeperFixture):
    """The broker, as each of those that a test case of 1.4 starts."""

    host = ADDRESS.rpartition(":")[0]
    port = int(ADDRESS.rpartition(":")[2] or 0)


@pytest.fixture
def kafka_broker() -> SimpleNamespace:
    return SimpleNamespace(host=KafkaFixture.host, port=KafkaFixture.port)


@pytest.fixture
def opened() -> Iterator[Callable[[Any], Any]]:
    """Clients, closed after the test."""
    clients = []

    def remember(client: Any) -> Any:
        clients.append(client)
        return client

    yield remember
    for one in clients:
        one.close()


@pytest.fixture
def kafka_admin_client(opened: Callable[[Any], Any]) -> Any:
    return opened(KafkaAdminClient(bootstrap_servers=ADDRESS))


@pytest.fixture
def topic(kafka_admin_client: Any, request: pytest.FixtureRequest) -> str:
    name = f"{request.node.originalname}-{os.urandom(4).hex()}"
    kafka_admin_client.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name


@pytest.fixture
def kafka_consumer_factory(opened: Callable[[Any], Any], topic: str) -> Callable[..., Any]:
    usual = {
        "bootstrap_servers": ADDRESS,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 500,
    }
    return lambda **settings: opened(KafkaConsumer(topic, **{**usual, **settings}))


@pytest.fixture
def kafka_consumer(kafka_consumer_factory: Callable[..., Any]) -> Any:
    return kafka_consumer_factory()


@pytest.fixture
def kafka_producer_factory(opened: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda **settings: opened(KafkaProducer(bootstrap_servers=ADDRESS, **settings))


@pytest.fixture
def kafka_producer(kafka_producer_factory: Callable[..., Any]) -> Any:
    return kafka_producer_factory()


@pytest.fixture
def send_messages(topic: str, kafka_producer: Any) -> Callable[..., list[str]]:
    def send(numbers: Iterable[int], partition: int = 0) -> list[str]:
        values = [str(one) for one in numbers]
        sent = [
            kafka_producer.send(topic, partition=partition, value=one.encode()) for one in values
        ]
        for one in sent:
            one.get(ANSWER_S)
        return values

    return send


@pytest.fixture
def simple_client(opened: Callable[[Any], Any]) -> Any:
    """The client of 1.4 that speaks version 0 of everything."""
    return opened(importlib.import_module("kafka").SimpleClient(ADDRESS))
