"""Producers of several clients, plain and idempotent, for `idempotence`: all with `acks=all`, five
requests on their way where that can be set, and a first message acknowledged before the clock
starts, so that finding brokers and a producer id is not what is measured."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from benchmarks import clients

IN_FLIGHT = 5
"""The most requests that an idempotent producer has on their way."""

VALUE = bytes(range(100))
FLUSH_S = 120.0
LINGER_MS = 5
BATCH_SIZE = 100_000
"""Bytes, where a client's own limit is a few records."""
PACKED_COUNT = 10_000
TIMEOUT_MS = 60_000

Send = Callable[[int], None]
"""Sends that many messages, and returns when all are acknowledged."""

Opened = Iterator[Send]


@contextmanager
def librdkafka(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    """A call for each message, and a look at what is acknowledged: as applications do it."""
    producer = _librdkafka(address, is_idempotent=is_idempotent)

    def send(count: int) -> None:
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, VALUE, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(FLUSH_S)

    yield send


@contextmanager
def librdkafka_in_batches(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    """Many messages in a call, so that librdkafka's own threads have all there is to do."""
    producer = _librdkafka(address, is_idempotent=is_idempotent)
    yield lambda count: clients.produce_all(producer, topic, VALUE, count)


def _librdkafka(address: str | None, *, is_idempotent: bool) -> Any:
    """To its own mock cluster with no address."""
    settings = {
        "enable.idempotence": is_idempotent,
        "max.in.flight.requests.per.connection": IN_FLIGHT,
    }
    return clients.producer(address, **settings)


@contextmanager
def kafka_python(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=address,
        acks="all",
        enable_idempotence=is_idempotent,
        max_in_flight_requests_per_connection=IN_FLIGHT,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
    )

    def send(count: int) -> None:
        for _ in range(count):
            producer.send(topic, VALUE, partition=0)
        producer.flush(FLUSH_S)

    with closing(producer):
        yield send


@contextmanager
def aiokafka(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    """Which has one request on its way for each partition."""
    from aiokafka import AIOKafkaProducer

    async def opened() -> Any:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            acks="all",
            enable_idempotence=is_idempotent,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_SIZE,
        )
        await producer.start()
        return producer

    with asyncio.Runner() as runner:
        producer = runner.run(opened())

        async def send(count: int) -> None:
            for _ in range(count):
                last = await producer.send(topic, VALUE, partition=0)
            await producer.flush()
            await last

        try:
            yield lambda count: runner.run(send(count))
        finally:
            runner.run(producer.stop())


@contextmanager
def java(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    from tests.compat.java import java_class
    from tests.compat.java_clients import producer, record

    sender = producer(
        address or "",
        acks="all",
        enable_idempotence=is_idempotent,
        max_in_flight_requests_per_connection=IN_FLIGHT,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
    )
    one = record(topic, VALUE.decode(), partition=0)
    seconds = java_class("java.util.concurrent.TimeUnit").SECONDS

    def send(count: int) -> None:
        for _ in range(count):
            last = sender.send(one)
        sender.flush()
        last.get(int(FLUSH_S), seconds)

    with closing(sender):
        yield send


@contextmanager
def ours(address: str | None, topic: str, *, is_idempotent: bool) -> Opened:
    """The one of Spark's sink: batches packed beforehand, one on its way. Only here is it plain."""
    import numpy as np
    import pyarrow as pa

    from ottla.client.bulk.producer import Producer
    from ottla.client.bulk.producer_identity import ProducerIdentity, init_producer
    from ottla.client.connecting.cluster import Cluster
    from ottla.record.packing import RecordColumns, pack_records

    host, _, port = (address or "").rpartition(":")
    columns = RecordColumns(key=None, value=pa.array([VALUE] * PACKED_COUNT, pa.binary()))
    packed = pack_records(columns, np.zeros(PACKED_COUNT, int), BATCH_SIZE)
    with Cluster([(host, int(port))], sleep=time.sleep, topics=[topic]) as cluster:
        plain = ProducerIdentity(transactional_id="", producer_id=-1, epoch=-1)
        identity = init_producer(cluster, "", TIMEOUT_MS) if is_idempotent else plain
        producer = Producer(cluster, identity)

        def send(count: int) -> None:
            """As many as `count` rounds up to, in whole batches."""
            for _ in range(0, count, PACKED_COUNT):
                producer.send(topic, packed)
            producer.flush()

        yield send


class Client(NamedTuple):
    """`message_count` messages take some seconds."""

    name: str
    needs: str
    """A module."""
    message_count: int
    open: Callable[..., Any]


IN_BATCHES = Client(
    "librdkafka's produce_batch", "confluent_kafka", 2_000_000, librdkafka_in_batches
)
CLIENTS = (
    Client("librdkafka's produce", "confluent_kafka", 1_000_000, librdkafka),
    IN_BATCHES,
    Client("Java", "jpype", 400_000, java),
    Client("kafka-python", "kafka", 100_000, kafka_python),
    Client("aiokafka", "aiokafka", 100_000, aiokafka),
    Client("ottla's own", "pyarrow", 8_000_000, ours),
)
