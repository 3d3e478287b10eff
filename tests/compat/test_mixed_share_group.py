"""One share group with members of Ottla, confluent-kafka and Java, at `ottla serve`: each record is
with one of them, and is accepted once.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

import ottla
from tests.compat.java import array_list, duration, kafka, needs_java_client, needs_version_4
from tests.compat.java_clients import COMMON, properties
from tests.integration.cli.support import serving
from tests.support.patience import wait_until

pytestmark = [pytest.mark.slow, needs_java_client, needs_version_4]

GROUP, TOPIC, COUNT = "workers", "jobs", 3000
OPTIONS = ["-o", "offsets.topic.num.partitions=1"]
OPTIONS += ["-o", "share.coordinator.state.topic.num.partitions=1"]
OPTIONS += ["-o", "group.share.assignment.interval.ms=0"]

Take = Callable[[str, int], None]
"""Takes the value of a record, and its delivery count."""


def ottla_member(address: str, take: Take, is_done: threading.Event) -> None:
    with ottla.ShareConsumer(address, GROUP, settings={"max.poll.records": 20}) as consumer:
        consumer.subscribe(TOPIC)
        while not is_done.is_set():
            for one in consumer.poll_many(20, timeout=0.1):
                take(one.value.decode(), one.delivery_count)


def confluent_member(address: str, take: Take, is_done: threading.Event) -> None:
    settings = {"bootstrap.servers": address, "group.id": GROUP, "max.poll.records": 20}
    consumer = ShareConsumer(settings)
    consumer.subscribe([TOPIC])
    while not is_done.is_set():
        for one in consumer.poll(timeout=0.1) or ():
            assert one.error() is None
            take(one.value().decode(), one.delivery_count())
    consumer.close()


def java_member(address: str, take: Take, is_done: threading.Event) -> None:
    settings: dict[str, Any] = {
        **COMMON,
        "bootstrap.servers": address,
        "group.id": GROUP,
        "max.poll.records": 20,
    }
    text = kafka("common.serialization.StringDeserializer")
    made = kafka("clients.consumer.KafkaShareConsumer")
    consumer = made(properties(settings), text(), text())
    consumer.subscribe(array_list([TOPIC]))
    while not is_done.is_set():
        for one in consumer.poll(duration(0.1)):
            take(str(one.value()), int(one.deliveryCount().get()))
    consumer.close()


def test_three_clients_share_a_group_and_no_record_is_with_two(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *OPTIONS) as (address, _):
        with ottla.Admin(address) as admin:
            admin.create_topic(TOPIC, partitions=1)
            kind = ottla.ResourceKind.GROUP
            admin.alter_configs(kind, GROUP, {"share.auto.offset.reset": "earliest"})
        found: dict[str, list[tuple[str, int]]] = {}
        is_done = threading.Event()
        members = {"ottla": ottla_member, "confluent": confluent_member, "java": java_member}
        threads = []
        for name, member in members.items():
            mine = found[name] = []
            take: Take = lambda value, count, mine=mine: mine.append((value, count))  # noqa: E731
            threads.append(threading.Thread(target=member, args=(address, take, is_done)))
        for one in threads:
            one.start()
        sent = 0
        with ottla.Producer(address, settings={"linger.ms": 0}) as producer:

            def send() -> bool:
                """Small batches until all have had some."""
                nonlocal sent
                for _ in range(30):
                    producer.send(TOPIC, b"%d" % sent)
                    sent += 1
                producer.flush()
                return sent >= COUNT and all(found.values())

            wait_until(send, lambda: f"only {[len(one) for one in found.values()]} came")
        wait_until(lambda: sum(map(len, found.values())) >= sent)
        is_done.set()
        for one in threads:
            one.join()
        taken = [value for mine in found.values() for value, _ in mine]
        assert sorted(taken, key=int) == [str(number) for number in range(sent)]
        assert {count for mine in found.values() for _, count in mine} == {1}
