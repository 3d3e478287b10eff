"""How long one record takes: to its acknowledgement, and to a consumer that waits for it.

One record is under way at any time, with acks=all and no linger. The plain socket shows the
broker; librdkafka, with its threads, shows what an application sees. Whether broker and client are
put on one core, or on two of which one sleeps, can double the time, so each is measured too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks import clients
from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.machine import can_pin, on_a_core_each, on_one_core
from benchmarks.measuring import Samples, Scale, figure, percentile
from benchmarks.report import Report
from benchmarks.requests import one_by_one
from benchmarks.wire import Producing, WireClient

VALUE = bytes(100)
COUNT = 2000
SOCKET_FACTOR = 5
"""The plain socket is that much quicker, and its 99th percentile would else be one of 20."""

WARM_UP = 20
CONSUME_S = 20.0
LIMIT_S = 5.0
"""A broker that takes a quarter of a second for each record need not be asked for thousands."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one run, in microseconds."""

    p50: float
    p99: float
    most: float


def run(scale: Scale) -> Iterator[Report]:
    reason = clients.absence()
    kinds: list[tuple[str, Callable[[RunningBroker, int], list[float]]]] = [
        ("Produce to acknowledgement, plain socket", _by_socket)
    ]
    if can_pin():
        kinds.append((kinds[0][0] + ", broker and client on one core", _on_one_core))
        kinds.append((kinds[0][0] + ", on a core each", _on_a_core_each))
    if reason is None:
        kinds.append(("Produce to acknowledgement, librdkafka", _by_librdkafka))
        kinds.append(("Produce to a waiting consumer, librdkafka both", _to_consumer))
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        if reason is not None:
            notes.append(f"librdkafka is left out: {reason}.")
        for title, measure in kinds:
            contestants = {
                broker.name: lambda broker=broker, measure=measure: _latency(
                    measure(broker, scale.of(COUNT, 5))
                )
                for broker in brokers
            }
            report = _report(title, scale.take_turns(contestants))
            report.notes.extend(notes)
            yield report


def _latency(seconds: list[float]) -> Latency:
    micros = [one * 1e6 for one in seconds]
    return Latency(percentile(micros, 50), percentile(micros, 99), max(micros))


def _by_socket(broker: RunningBroker, count: int) -> list[float]:
    producing = Producing(broker.host, broker.port)
    try:
        one_by_one(producing, WARM_UP)
        return one_by_one(producing, SOCKET_FACTOR * count)
    finally:
        producing.close()


def _on_one_core(broker: RunningBroker, count: int) -> list[float]:
    """The work alone."""
    with on_one_core(broker.pid):
        return _by_socket(broker, count)


def _on_a_core_each(broker: RunningBroker, count: int) -> list[float]:
    with on_a_core_each(broker.pid):
        return _by_socket(broker, count)


def _by_librdkafka(broker: RunningBroker, count: int) -> list[float]:
    target, topic = _producer(broker)
    seconds = []
    for _ in range(count):
        started = perf_counter()
        target.produce(topic, VALUE, partition=0)
        if target.flush(CONSUME_S):
            raise RuntimeError(f"{broker.name} acknowledges nothing")
        seconds.append(perf_counter() - started)
    return seconds


def _to_consumer(broker: RunningBroker, count: int) -> list[float]:
    target, topic = _producer(broker)
    source = clients.consumer(broker.address)
    try:
        clients.read_from(source, topic, 0)
        clients.consume_all(source, WARM_UP, WARM_UP * len(VALUE))
        seconds: list[float] = []
        while len(seconds) < count and sum(seconds) < LIMIT_S:
            seconds.append(_one_way(target, source, topic))
        return seconds
    finally:
        source.close()


def _producer(broker: RunningBroker) -> tuple[Any, str]:
    """A producer that has found the leader of a new topic, and sent some records."""
    with WireClient(broker.host, broker.port) as client:
        topic = client.create_topic()
    target = clients.producer(broker.address, **{"linger.ms": 0})
    clients.produce_all(target, topic, VALUE, WARM_UP)
    return target, topic


def _one_way(target: Any, source: Any, topic: str) -> float:
    started = perf_counter()
    target.produce(topic, VALUE, partition=0)
    while True:
        message = source.poll(CONSUME_S)
        if message is None:
            raise RuntimeError("a record did not come")
        if message.error() is None:
            return perf_counter() - started


def _report(title: str, runs: dict[str, list[Latency]]) -> Report:
    report = Report(title, ("broker", "p50 us", "from ... to", "p99 us", "from ... to", "most us"))
    for name, all_ in runs.items():
        halves = Samples(tuple(one.p50 for one in all_))
        ends = Samples(tuple(one.p99 for one in all_))
        most = Samples(tuple(one.most for one in all_))
        report.add(
            name,
            figure(halves.median),
            halves.spread,
            figure(ends.median),
            ends.spread,
            figure(most.median),
        )
    return report
