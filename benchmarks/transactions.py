"""Committing transactions, with librdkafka and beside other brokers."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from benchmarks import clients
from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.logs import CHANCE
from benchmarks.measuring import Scale, figure
from benchmarks.report import Report, Target
from benchmarks.wire import WireClient

PARTITIONS = 4
RECORDS = 100
TRANSACTIONS = 1000
VALUE = CHANCE.randbytes(100)
TIMEOUT_S = 20.0

RATE_TARGET = Target(limit=300, unit="/s", is_minimum=True)


def run(scale: Scale) -> Iterator[Report]:
    reason = clients.absence()
    if reason is not None:
        yield Report("Transactions", ("left out",), notes=[f"{reason}."])
        return
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        yield _committing(scale, brokers, notes)


def _committing(scale: Scale, brokers: list[RunningBroker], notes: list[str]) -> Report:
    count = scale.of(TRANSACTIONS, 5)
    report = Report(
        f"Transactions of {RECORDS} records over {PARTITIONS} partitions, one after another",
        ("broker", "committed/s", "from ... to", "target"),
    )
    report.notes.extend(notes)
    contestants: dict[str, Callable[[], float]] = {}
    for broker in brokers:
        try:
            producer, topic = _transactional(broker)
        except Exception as error:
            report.notes.append(f"{broker.name} is left out: {error}")
            continue
        contestants[broker.name] = lambda producer=producer, topic=topic: _rate(  # type: ignore[misc]
            producer, topic, count
        )
    for name, samples in scale.sampled(contestants).items():
        verdict = RATE_TARGET.verdict(samples) if name == "ottla" else ""
        report.add(name, figure(samples.median), samples.spread, verdict)
    return report


def _transactional(broker: RunningBroker) -> tuple[Any, str]:
    topic = _topic(broker)
    name = f"bench-{CHANCE.randrange(1 << 32)}"
    producer = clients.producer(broker.address, **{"transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    _commit(producer, topic)
    return producer, topic


def _topic(broker: RunningBroker) -> str:
    client = WireClient(broker.host, broker.port)
    try:
        return client.create_topic(PARTITIONS)
    finally:
        client.socket.close()


def _commit(producer: Any, topic: str) -> None:
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, VALUE, partition=number % PARTITIONS)
    producer.commit_transaction(TIMEOUT_S)


def _rate(producer: Any, topic: str, count: int) -> float:
    started = perf_counter()
    for _ in range(count):
        _commit(producer, topic)
    return count / (perf_counter() - started)
