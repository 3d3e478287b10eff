"""Committing transactions, and what idempotence costs, with librdkafka and beside other brokers."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from benchmarks import clients
from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.logs import CHANCE
from benchmarks.measuring import Samples, Scale, figure
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient

PARTITIONS = 4
RECORDS = 100
TRANSACTIONS = 1000
MESSAGES = 1_000_000
VALUE = CHANCE.randbytes(100)
TIMEOUT_S = 20.0
IN_FLIGHT = "max.in.flight.requests.per.connection"

RATE_TARGET = Target(limit=300, unit="/s", is_minimum=True)
COST_TARGET = Target(limit=5, unit="%")


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
        yield _idempotence(scale, brokers[0])


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


def _idempotence(scale: Scale, broker: RunningBroker) -> Report:
    report = figures_report("Messages of 100 bytes to one partition, acks=all")
    count = scale.of(MESSAGES, 50)
    topic = _topic(broker)

    def producing(is_idempotent: bool) -> Callable[[], float]:
        def once() -> float:
            # An idempotent producer has five requests on their way at the most; so has the other.
            settings = {"enable.idempotence": is_idempotent, IN_FLIGHT: 5}
            producer = clients.producer(broker.address, **settings)
            producer.list_topics(topic, TIMEOUT_S)
            started = perf_counter()
            clients.produce_all(producer, topic, VALUE, count)
            return count / (perf_counter() - started) / 1000

        return once

    samples = scale.sampled({"plain": producing(False), "idempotent": producing(True)}, times=2)
    add_figure(report, "plain producer", samples["plain"], "k/s")
    add_figure(report, "idempotent producer", samples["idempotent"], "k/s")
    shares = samples["idempotent"].over(samples["plain"]).values
    cost = Samples(tuple(100 * (1 - share) for share in shares))
    add_figure(report, "  what idempotence costs of the rate", cost, "%", COST_TARGET)
    return report
