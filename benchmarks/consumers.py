"""Consumers as applications use them: a record at a time, and what it holds is looked at.

All read the same partition of one broker from its beginning, in turns, each with its own defaults
for the sizes of fetches. The clock runs from the first record to the last, so that finding brokers
is not what is measured.
"""

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import ottla
import ottla.aio
from benchmarks import clients
from benchmarks.beside_others import Cost, Stopwatch, compared
from benchmarks.brokers import Ottla, started_brokers
from benchmarks.measuring import Scale
from benchmarks.report import Report

SIZES = {"100 B": (100, 400_000), "1 KB": (1000, 100_000)}
"""Of a value, and how many records there are."""

TINY = 2000
CHUNK = 500

OURS = {
    "confluent-kafka, poll": "ottla, for",
    "confluent-kafka, consume": "ottla, consume",
    "kafka-python, for": "ottla, for",
    "aiokafka, async for": "ottla.aio, async for",
}
"""Another's client -> which of ours it is compared with."""

Read = Callable[[str, str, int], Cost]
"""`read(address, topic, count)`"""


def run(scale: Scale) -> Iterator[Report]:
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=False) as (brokers, _),
    ):
        broker = next(one for one in brokers if one.name == Ottla.name)
        for name, (size, full) in SIZES.items():
            count = scale.of(full, TINY)
            topic = f"records-{size}"
            with ottla.Admin(broker.address) as admin:
                admin.create_topic(topic)
            value = bytes(range(100)) * (size // 100)
            clients.produce_all(clients.producer(broker.address), topic, value, count)
            readers = {
                who: partial(read, broker.address, topic, count) for who, read in present().items()
            }
            counts = dict.fromkeys(readers, count)
            costs = scale.take_turns(readers)
            yield from compared(f"consumers, {name} in a record", costs, counts, OURS)


def present() -> dict[str, Read]:
    """The clients that are installed."""
    found: dict[str, Read] = {
        "ottla, for": _ottla,
        "ottla, consume": _ottla_consume,
        "ottla.aio, async for": _ottla_aio,
    }
    if importlib.util.find_spec("confluent_kafka"):
        found["confluent-kafka, poll"] = _confluent
        found["confluent-kafka, consume"] = _confluent_consume
    if importlib.util.find_spec("kafka"):
        found["kafka-python, for"] = _kafka_python
    if importlib.util.find_spec("aiokafka"):
        found["aiokafka, async for"] = _aiokafka
    return found


def _timed(records: Iterator[tuple[int, bytes]], count: int) -> Cost:
    next(records)
    watch = Stopwatch()
    size = 0
    for number, (_, value) in enumerate(records, 2):
        size += len(value)
        if number == count:
            break
    return watch.read()


SETTINGS = {"auto.offset.reset": "earliest"}


def _ottla(address: str, topic: str, count: int) -> Cost:
    with ottla.Consumer(address, settings=SETTINGS) as consumer:
        consumer.assign([(topic, 0)])
        return _timed(((one.offset, one.value) for one in consumer), count)


def _ottla_consume(address: str, topic: str, count: int) -> Cost:
    with ottla.Consumer(address, settings=SETTINGS) as consumer:
        consumer.assign([(topic, 0)])
        chunks = iter(lambda: consumer.consume(CHUNK), [])
        return _timed(((one.offset, one.value) for chunk in chunks for one in chunk), count)


def _ottla_aio(address: str, topic: str, count: int) -> Cost:
    async def read() -> Cost:
        async with ottla.aio.Consumer(address, settings=SETTINGS) as consumer:
            consumer.assign([(topic, 0)])
            return await _timed_async(aiter(consumer), count)

    return asyncio.run(read())


async def _timed_async(records: AsyncIterator[Any], count: int) -> Cost:
    await anext(records)
    watch = Stopwatch()
    size, number = 0, 1
    async for one in records:
        size += len(one.value) + (one.offset < 0)
        number += 1
        if number == count:
            break
    return watch.read()


def _confluent(address: str, topic: str, count: int) -> Cost:
    consumer = _confluent_consumer(address, topic)
    messages = iter(lambda: consumer.poll(clients.CONSUME_S), None)
    try:
        return _timed(((one.offset(), one.value()) for one in messages if not one.error()), count)
    finally:
        consumer.close()


def _confluent_consume(address: str, topic: str, count: int) -> Cost:
    consumer = _confluent_consumer(address, topic)
    chunks = iter(lambda: consumer.consume(CHUNK, clients.CONSUME_S), [])
    found = (one for chunk in chunks for one in chunk if not one.error())
    try:
        return _timed(((one.offset(), one.value()) for one in found), count)
    finally:
        consumer.close()


def _confluent_consumer(address: str, topic: str) -> Any:
    """With its own settings, as an application has it."""
    from confluent_kafka import Consumer

    consumer = Consumer({**clients.QUIET, "bootstrap.servers": address, "group.id": "bench"})
    clients.read_from(consumer, topic, 0)
    return consumer


def _kafka_python(address: str, topic: str, count: int) -> Cost:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    try:
        return _timed(((one.offset, one.value) for one in consumer), count)
    finally:
        consumer.close()


def _aiokafka(address: str, topic: str, count: int) -> Cost:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> Cost:
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            return await _timed_async(aiter(consumer), count)
        finally:
            await consumer.stop()

    return asyncio.run(read())
