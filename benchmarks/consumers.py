"""Consumers as applications use them: a record at a time, and what it holds is looked at.

All read the same partition of one broker from its beginning, in turns, each with its own defaults
for the sizes of fetches. The clock runs from the first record to the last, so that finding brokers
is not what is measured.
"""

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import ottla
import ottla.aio
from benchmarks import clients
from benchmarks.brokers import Ottla, started_brokers
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report

SIZES = {"100 B": (100, 400_000), "1 KB": (1000, 100_000)}
"""Of a value, and how many records there are."""

TINY = 2000
CHUNK = 500

AHEAD_OF_PYTHON = Target(limit=3, unit="times", is_minimum=True)
BESIDE_LIBRDKAFKA = Target(limit=0.5, unit="times", is_minimum=True)

Read = Callable[[str, str, int], float]
"""`read(address, topic, count)`: seconds from the first record to the last."""


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
            yield _report(name, count, scale.sampled(readers))


def _report(name: str, count: int, seconds: Mapping[str, Samples]) -> Report:
    report = figures_report(f"consumers, {name} in a record")
    for who, samples in seconds.items():
        rates = Samples(tuple(count / one for one in samples.values))
        add_figure(report, who, rates, "records/s")
    for who, samples in seconds.items():
        if who.startswith("ottla"):
            continue
        target = BESIDE_LIBRDKAFKA if "confluent" in who else AHEAD_OF_PYTHON
        if who == "confluent-kafka, consume":
            ours = "ottla, consume"
        else:
            ours = "ottla.aio, async for" if who.startswith("aiokafka") else "ottla, for"
        add_figure(report, f"{ours} / {who}", samples.over(seconds[ours]), "times", target)
    return report


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


def _timed(records: Iterator[tuple[int, bytes]], count: int) -> float:
    next(records)
    started = perf_counter()
    size = 0
    for number, (_, value) in enumerate(records, 2):
        size += len(value)
        if number == count:
            break
    return perf_counter() - started


SETTINGS = {"auto.offset.reset": "earliest"}


def _ottla(address: str, topic: str, count: int) -> float:
    with ottla.Consumer(address, settings=SETTINGS) as consumer:
        consumer.assign([(topic, 0)])
        return _timed(((one.offset, one.value) for one in consumer), count)


def _ottla_consume(address: str, topic: str, count: int) -> float:
    with ottla.Consumer(address, settings=SETTINGS) as consumer:
        consumer.assign([(topic, 0)])
        chunks = iter(lambda: consumer.consume(CHUNK), [])
        return _timed(((one.offset, one.value) for chunk in chunks for one in chunk), count)


def _ottla_aio(address: str, topic: str, count: int) -> float:
    async def read() -> float:
        async with ottla.aio.Consumer(address, settings=SETTINGS) as consumer:
            consumer.assign([(topic, 0)])
            return await _timed_async(aiter(consumer), count)

    return asyncio.run(read())


async def _timed_async(records: AsyncIterator[Any], count: int) -> float:
    await anext(records)
    started = perf_counter()
    size, number = 0, 1
    async for one in records:
        size += len(one.value) + (one.offset < 0)
        number += 1
        if number == count:
            break
    return perf_counter() - started


def _confluent(address: str, topic: str, count: int) -> float:
    consumer = _confluent_consumer(address, topic)
    messages = iter(lambda: consumer.poll(clients.CONSUME_S), None)
    try:
        return _timed(((one.offset(), one.value()) for one in messages if not one.error()), count)
    finally:
        consumer.close()


def _confluent_consume(address: str, topic: str, count: int) -> float:
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


def _kafka_python(address: str, topic: str, count: int) -> float:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    try:
        return _timed(((one.offset, one.value) for one in consumer), count)
    finally:
        consumer.close()


def _aiokafka(address: str, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            return await _timed_async(aiter(consumer), count)
        finally:
            await consumer.stop()

    return asyncio.run(read())
