"""Producers, consumers and administrators of Apache Kafka's Java client, for the tests of it."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.compat.java import (
    HASTE_S,
    PATIENCE_S,
    array_list,
    duration,
    java_class,
    kafka,
    properties,
    wait,
)

POLL_S = 0.2
SESSION_MS = 6000
HEARTBEAT_MS = 300

Seen = tuple[int, int]
"""A partition and an offset in it."""

COMMON = {
    "request.timeout.ms": HASTE_S * 1000,
    "default.api.timeout.ms": PATIENCE_S * 1000,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.max.ms": 200,
    "metadata.max.age.ms": 1000,
}


def named(settings: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names of settings, for names in Python's way: `_` for `.`."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def producer(address: str, **settings: Any) -> Any:
    """A `KafkaProducer` of texts."""
    config = {
        **COMMON,
        "bootstrap.servers": address,
        "max.block.ms": PATIENCE_S * 1000,
        "delivery.timeout.ms": PATIENCE_S * 1000,
        **named(settings),
    }
    del config["default.api.timeout.ms"]
    text = kafka("common.serialization.StringSerializer")
    return kafka("clients.producer.KafkaProducer")(properties(config), text(), text())


def consumer(address: str, **settings: Any) -> Any:
    """A `KafkaConsumer` of texts that begins with the earliest and commits nothing by itself."""
    config = {
        **COMMON,
        "bootstrap.servers": address,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.max.wait.ms": 100,
        **named(settings),
    }
    text = kafka("common.serialization.StringDeserializer")
    return kafka("clients.consumer.KafkaConsumer")(properties(config), text(), text())


@contextlib.contextmanager
def administrator(address: str, **settings: Any) -> Iterator[Any]:
    config = {**COMMON, "bootstrap.servers": address, **named(settings)}
    config["default.api.timeout.ms"] = HASTE_S * 1000
    admin = kafka("clients.admin.Admin").create(properties(config))
    try:
        yield admin
    finally:
        admin.close(duration(1))


def create_topic(address: str, name: str, partition_count: int = 1, **config: str) -> None:
    with administrator(address) as admin:
        made = kafka("clients.admin.NewTopic")(name, partition_count, 1)
        made.configs(java_map(named(config)))
        wait(admin.createTopics(array_list([made])).all())


def java_map(values: dict[Any, Any]) -> Any:
    made = java_class("java.util.HashMap")()
    for key, value in values.items():
        made.put(key, value)
    return made


def place(topic: str, partition: int = 0) -> Any:
    return kafka("common.TopicPartition")(topic, partition)


def record(
    topic: str,
    value: str | None,
    *,
    key: str | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
) -> Any:
    boxed = java_class("java.lang.Integer")
    timestamp = java_class("java.lang.Long")
    return kafka("clients.producer.ProducerRecord")(
        topic,
        None if partition is None else boxed.valueOf(partition),
        None if timestamp_ms is None else timestamp.valueOf(timestamp_ms),
        key,
        value,
    )


def send_all(address: str, records: Iterable[Any], **settings: Any) -> list[Any]:
    """What is told of each record that was sent."""
    with closing(producer(address, **settings)) as sender:
        return [wait(one) for one in [sender.send(one) for one in records]]


@contextlib.contextmanager
def closing(client: Any, seconds: float = 5) -> Iterator[Any]:
    try:
        yield client
    finally:
        close(client, seconds)


def close(client: Any, seconds: float = 5) -> None:
    """Waits no longer than that for what a dead broker owes."""
    client.close(duration(seconds))


def read_to_end(
    address: str, topic: str, partitions: Sequence[int] = (0,), **settings: Any
) -> list[Any]:
    """All records there are, in the order they came; what is open waits for nobody."""
    with closing(consumer(address, **settings)) as reader:
        places = array_list([place(topic, one) for one in partitions])
        reader.assign(places)
        reader.seekToBeginning(places)
        ends = reader.endOffsets(places)
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while any(reader.position(one) < ends[one] for one in places):
            assert time.monotonic() < deadline
            found += list(reader.poll(duration(POLL_S)))
        return found


def read_values(
    address: str, topic: str, partitions: Sequence[int] = (0,), **more: Any
) -> list[str]:
    return [str(one.value()) for one in read_to_end(address, topic, partitions, **more)]


class JavaConsumer:
    """A `GroupConsumer` (see group_consumers.py)."""

    def __init__(self, address: str, group_id: str, topic: Any, **settings: Any) -> None:
        options: dict[str, Any] = {"group_id": group_id, **settings}
        if settings.get("group_protocol") != "consumer":
            options |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
        self.seen: list[Seen] = []
        self.client = consumer(address, **options)
        self.client.subscribe(array_list([topic]) if isinstance(topic, str) else topic)

    def poll(self) -> None:
        self.seen += [
            (int(one.partition()), int(one.offset())) for one in self.client.poll(duration(POLL_S))
        ]

    def assignment(self) -> set[int]:
        return {int(one.partition()) for one in self.client.assignment()}

    def commit(self) -> None:
        self.client.commitSync()

    def close(self) -> None:
        close(self.client)


def poll_until(condition: Callable[[], bool], *consumers: JavaConsumer) -> None:
    """Has all consumers poll by turns until something holds; fails after a while.

    The client's heartbeats have a thread of their own, so nobody is missed meanwhile.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, [
            (sorted(one.assignment()), len(one.seen)) for one in consumers
        ]
        for one in consumers:
            one.poll()
