"""Applications of other people's client libraries, tested with `LocalBroker`.

Each application reads orders and writes bills; the test is the same for all.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.leftovers import collect_leftovers, of_clients
from tests.support.patience import PATIENCE_S

pytestmark = of_clients

Application = Callable[[str, threading.Event], None]
"""Runs against an address until it is to stop."""


def bill(order: bytes) -> bytes:
    return b"bill for " + order


def with_confluent_kafka(address: str, is_over: threading.Event) -> None:
    settings = {"bootstrap.servers": address}
    consumer = Consumer(settings | {"group.id": "billing", "auto.offset.reset": "earliest"})
    producer = Producer(settings)
    consumer.subscribe(["orders"])
    while not is_over.is_set():
        record = consumer.poll(0.05)
        if record is not None and record.error() is None:
            producer.produce("bills", bill(record.value()))
            producer.flush()
    consumer.close()


def with_kafka_python(address: str, is_over: threading.Event) -> None:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest"
    )
    # A leader that joins before it knows the topic assigns nothing, and does not look again.
    consumer.partitions_for_topic("orders")
    producer = KafkaProducer(bootstrap_servers=address)
    while not is_over.is_set():
        for records in consumer.poll(50).values():
            for record in records:
                producer.send("bills", bill(record.value)).get(PATIENCE_S)
    consumer.close()
    producer.close()


def with_aiokafka(address: str, is_over: threading.Event) -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest"
        )
        producer = AIOKafkaProducer(bootstrap_servers=address)
        await consumer.start()
        await producer.start()
        while not is_over.is_set():
            for records in (await consumer.getmany(timeout_ms=50)).values():
                for record in records:
                    await producer.send_and_wait("bills", bill(record.value))
        await consumer.stop()
        await producer.stop()

    asyncio.run(run())


def with_faststream(address: str, is_over: threading.Event) -> None:
    from faststream.kafka import KafkaBroker

    async def run() -> None:
        broker = KafkaBroker(address)

        @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
        @broker.publisher("bills")
        async def on_order(order: bytes) -> bytes:
            return bill(order)

        await broker.start()
        while not is_over.is_set():
            await asyncio.sleep(0.05)
        await broker.stop()

    asyncio.run(run())


APPLICATIONS = [with_confluent_kafka, with_kafka_python, with_aiokafka, with_faststream]


@contextmanager
def running(application: Application, address: str) -> Iterator[None]:
    is_over = threading.Event()
    thread = threading.Thread(target=application, args=[address, is_over], daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE_S)
        collect_leftovers()


@pytest.mark.slow
@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_application_bills_each_order_also_after_errors(
    tmp_path: Path, application: Application
) -> None:
    with LocalBroker(tmp_path / "broker", SETTINGS) as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        broker.produce("orders", "tea")
        with running(application, broker.address):
            broker.assert_produced("bills", value="bill for tea", within_s=PATIENCE_S)
            broker.fail("produce", "NOT_ENOUGH_REPLICAS", times=1)
            broker.produce("orders", "cake")
            broker.assert_produced("bills", value="bill for cake", within_s=PATIENCE_S)
            assert broker.requests("produce") >= 3
