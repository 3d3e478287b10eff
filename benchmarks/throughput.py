"""librdkafka producing to one partition and reading it again, beside other brokers.

Client and broker share the machine, so the client's own ceiling is measured as well: producing to
its mock cluster, which lives in the client's process and does as little as a broker can.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from benchmarks import clients
from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.logs import CHANCE
from benchmarks.machine import ProcessCost
from benchmarks.measuring import MEGABYTE, Samples, Scale, figure, warm_memory
from benchmarks.report import Report
from benchmarks.wire import WireClient

COUNTS = {100: 2_000_000, 1000: 500_000, 10_000: 60_000}
"""Value size -> messages, about half a second's worth or more of the fastest."""

CEILING = "client alone (mock)"
TINY_COUNT = 50
OVERHEAD = 80
"""Bytes of memory that a message may take beside its value, in a broker that keeps it there."""

CLIENT_SIZE = 500 * MEGABYTE
"""Memory that the client takes for its queues, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One run: how fast, and what it cost the broker."""

    seconds: float
    cpu_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Producing, then consuming the same; the mock cluster keeps too little to be read."""

    produced: Rate
    consumed: Rate | None = None
    resident_bytes: int | None = None


def run(scale: Scale) -> Iterator[Report]:
    reason = clients.absence()
    if reason is not None:
        yield Report("Throughput", ("left out",), notes=[f"{reason}."])
        return
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        for value_size, full_count in COUNTS.items():
            count = scale.of(full_count, TINY_COUNT)
            value = CHANCE.randbytes(value_size)
            memory = scale.of(count * (value_size + OVERHEAD) + CLIENT_SIZE, 1)

            def measure(
                broker: RunningBroker,
                value: bytes = value,
                count: int = count,
                memory: int = memory,
            ) -> Runs:
                warm_memory(directory, memory)
                return _measure(broker, value, count)

            contestants: dict[str, Callable[[], Runs]] = {
                broker.name: lambda broker=broker, measure=measure: measure(broker)  # type: ignore[misc]
                for broker in brokers
            }
            contestants[CEILING] = lambda value=value, count=count: _ceiling(value, count)  # type: ignore[misc]
            report = _report(value_size, count, scale.take_turns(contestants))
            report.notes.extend(notes)
            yield report


def _measure(broker: RunningBroker, value: bytes, count: int) -> Runs:
    with WireClient(broker.host, broker.port) as client:
        topic = client.create_topic()
    target = clients.producer(broker.address)
    clients.produce_all(target, topic, value, 1)  # connects, and waits for the leader
    produced = _timed(broker, lambda: clients.produce_all(target, topic, value, count))
    source = clients.consumer(broker.address)

    def consume() -> None:
        clients.read_from(source, topic, 0)
        clients.consume_all(source, count + 1, (count + 1) * len(value))

    try:
        source.list_topics(topic, timeout=30)  # connects
        consumed = _timed(broker, consume)
    finally:
        source.close()
    cost = broker.cost()
    return Runs(
        produced=produced,
        consumed=consumed,
        resident_bytes=None if cost is None else cost.resident_bytes,
    )


def _ceiling(value: bytes, count: int) -> Runs:
    target = clients.producer(None)
    topic = f"mock-{time.monotonic_ns()}"
    clients.produce_all(target, topic, value, 1)
    started = perf_counter()
    clients.produce_all(target, topic, value, count)
    return Runs(produced=Rate(seconds=perf_counter() - started))


def _timed(broker: RunningBroker, action: Callable[[], object]) -> Rate:
    before = broker.cost()
    started = perf_counter()
    action()
    seconds = perf_counter() - started
    return Rate(seconds=seconds, cpu_seconds=_between(before, broker.cost()))


def _between(before: ProcessCost | None, after: ProcessCost | None) -> float | None:
    return None if before is None or after is None else after.cpu_seconds - before.cpu_seconds


def _report(value_size: int, count: int, runs: dict[str, list[Runs]]) -> Report:
    columns = (
        "broker", "produce k msg/s", "MB/s", "from ... to", "CPU s/GB",
        "consume k msg/s", "MB/s", "from ... to", "CPU s/GB", "memory MB",
    )  # fmt: skip
    report = Report(f"{count:,} messages of {value_size:,} bytes, one partition, acks=all", columns)
    for name, all_ in runs.items():
        produced = [one.produced for one in all_]
        consumed = [one.consumed for one in all_ if one.consumed is not None]
        resident = tuple(one.resident_bytes / MEGABYTE for one in all_ if one.resident_bytes)
        report.add(
            name,
            *_cells(produced, value_size, count),
            *_cells(consumed, value_size, count),
            figure(Samples(resident).median) if resident else "-",
        )
    return report


def _cells(rates: list[Rate], value_size: int, count: int) -> tuple[str, str, str, str]:
    """Messages, megabytes with their spread, and the broker's processor time per gigabyte."""
    if not rates:
        return ("-", "-", "-", "-")
    speeds = Samples(tuple(count / one.seconds for one in rates))
    megabytes = speeds.scaled(value_size / MEGABYTE)
    gigabytes = count * value_size / 1e9
    spent = tuple(one.cpu_seconds / gigabytes for one in rates if one.cpu_seconds is not None)
    return (
        figure(speeds.median / 1000),
        figure(megabytes.median),
        megabytes.spread,
        figure(Samples(spent).median) if spent else "-",
    )
