"""A broker of 10,000 partitions, each with a record: what it takes to start, hold, ask and stop."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of
from benchmarks.report import Report, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder

TOPIC_COUNT = 200
PARTITION_COUNT = 50
IDLE_S = 10.0
SETTLE_S = 2.0


def run(scale: Scale) -> Iterator[Report]:
    topics = [f"many-{one}" for one in range(scale.of(TOPIC_COUNT, 2))]
    partitions = scale.of(PARTITION_COUNT, 3)
    report = figures_report(f"A broker of {len(topics) * partitions:,} partitions")
    with scale.data_directory() as directory:
        with stopped(report, directory, "a clean stop after that") as broker:
            with WireClient(broker.host, broker.port) as client:
                made = seconds_of(lambda: _create(client, topics, partitions))
                filled = seconds_of(lambda: _fill(client, topics, range(partitions)))
            _add(report, "creating them, in ten requests", made, "s")
            _add(report, "producing a record to each, fifty in a request", filled, "s")
        with stopped(report, directory, "a clean stop after that start") as broker:
            _add(report, "ready after a clean stop", broker.ready_seconds, "s")
            _add(report, "processor time of that start", _cpu_s(broker), "s")
            time.sleep(scale.of(int(SETTLE_S * 1000), 1) / 1000)
            _measure(report, broker, topics, scale)
    yield report


def _measure(report: Report, broker: RunningBroker, topics: Sequence[str], scale: Scale) -> None:
    _add(report, "idle: descriptors", _descriptors(broker), "")
    _add(report, "idle: memory", _resident(broker), "MB")
    _add(report, "idle: of one core", _share(broker, scale.of(int(IDLE_S * 1000), 1) / 1000), "%")
    with WireClient(broker.host, broker.port) as client:
        every = MetadataRequest(topics=None)
        _add(report, "Metadata of all", seconds_of(lambda: client.ask(every, 9)), "s")

        def fill_each() -> None:
            for one in topics:
                _fill(client, [one], [0])

        one_each = seconds_of(fill_each)
        _add(report, f"producing a record to each of {len(topics)}, one by one", one_each, "s")
    _add(report, "after that: descriptors", _descriptors(broker), "")
    _add(report, "after that: memory", _resident(broker), "MB")


@contextlib.contextmanager
def stopped(report: Report, directory: Path, name: str) -> Iterator[RunningBroker]:
    """A broker at work, and how long it takes to stop."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(Ottla().start(directory))
        started = perf_counter()
    _add(report, name, perf_counter() - started, "s")


def _create(client: WireClient, topics: Sequence[str], partitions: int) -> None:
    step = max(1, len(topics) // 10)
    for first in range(0, len(topics), step):
        wanted = [
            CreatableTopic(name=one, num_partitions=partitions, replication_factor=1)
            for one in topics[first : first + step]
        ]
        answer = client.ask(CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 4)
        assert not any(one.error_code for one in answer.topics)


def _fill(client: WireClient, topics: Sequence[str], partitions: Sequence[int]) -> None:
    builder = RecordBatchBuilder()
    builder.append(None, b"value", int(time.time() * 1000))
    batch = bytes(builder.build())
    for topic in topics:
        data = [PartitionProduceData(index=one, records=batch) for one in partitions]
        topic_data = [TopicProduceData(name=topic, partition_data=data)]
        answer = client.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topic_data), 9)
        assert not any(one.error_code for one in answer.responses[0].partition_responses)


def _add(report: Report, name: str, value: float, unit: str) -> None:
    add_figure(report, name, Samples((float(value),)), unit)


def _descriptors(broker: RunningBroker) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def _resident(broker: RunningBroker) -> float:
    cost = cost_of(broker.pid)
    return 0.0 if cost is None else cost.resident_bytes / MEGABYTE


def _cpu_s(broker: RunningBroker) -> float:
    cost = cost_of(broker.pid)
    return 0.0 if cost is None else cost.cpu_seconds


def _share(broker: RunningBroker, seconds: float) -> float:
    before = _cpu_s(broker)
    time.sleep(seconds)
    return 100 * (_cpu_s(broker) - before) / seconds
