"""A log whose head lies in a tier: reads through a broker, and a start with 10,000 segments."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import ottla
from benchmarks import clients
from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.storage.remote.metadata_records import SegmentUpdate
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)

RECORD_SIZE = 1000
SEGMENT_SIZE = 64 << 20
COUNT = 500_000
SEGMENT_COUNT = 10_000
AT_ONCE = 100
SETTLE_S = 5.0
EARLIEST_LOCAL = -4

READ_TARGET = Target(limit=0.6, unit="times", is_minimum=True)
START_TARGET = Target(limit=1.2, unit="times")
MEMORY_TARGET = Target(limit=2000, unit="bytes")

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1"}


def settings_of(directory: Path, **others: str) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": LOCAL_CLASS,
        "rsm.config.dir": str(directory / "tier"),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        **others,
    }


def arguments(settings: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={text}" for name, text in settings.items())


def run(scale: Scale) -> Iterator[Report]:
    absence = clients.absence()
    if absence is None:
        yield _reading(scale)
    yield _many_segments(scale)


# Reading


def _reading(scale: Scale) -> Report:
    count = scale.of(COUNT, 8000)
    report = figures_report(
        f"Reading {count:,} records of 1 KB from the log's start, 64 MB segments"
    )
    with scale.data_directory() as directory:
        quick = {
            "remote.log.manager.task.interval.ms": "100",
            "log.retention.check.interval.ms": "100",
            "log.initial.task.delay.ms": "0",
        }
        peer = Ottla(arguments(settings_of(directory, **quick)))
        (directory / "tier").mkdir()
        with peer.start(directory / "data") as broker:
            _fill(broker, count, scale.of(SEGMENT_SIZE, 1 << 21))
            readers = {
                topic: partial(_consume, broker, topic, count) for topic in ("local", "tiered")
            }
            costs = scale.take_turns(readers)
    rates = {
        topic: Samples(tuple(count * RECORD_SIZE / MEGABYTE / one for one, _ in some))
        for topic, some in costs.items()
    }
    for topic, samples in rates.items():
        add_figure(report, f"{topic}: consumed by librdkafka", samples, "MB/s")
    ratio = rates["tiered"].over(rates["local"])
    add_figure(report, "the rate from the tier, of that from the log", ratio, "times", READ_TARGET)
    for topic, some in costs.items():
        busy = Samples(tuple(1e3 * cpu / (count * RECORD_SIZE / MEGABYTE) for _, cpu in some))
        add_figure(report, f"{topic}: the broker's processor time", busy, "ms for 1 MB")
    return report


def _fill(broker: RunningBroker, count: int, segment_size: int) -> None:
    value = os.urandom(RECORD_SIZE)
    for topic, overrides in (("local", {}), ("tiered", TIERED)):
        with WireClient(broker.host, broker.port) as client:
            settings = {"segment.bytes": str(segment_size), **overrides}
            configs = [CreatableTopicConfig(name=name, value=one) for name, one in settings.items()]
            wanted = CreatableTopic(
                name=topic, num_partitions=1, replication_factor=1, configs=configs
            )
            (made,) = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5).topics
            assert not made.error_code, made.error_message
        clients.produce_all(clients.producer(broker.address), topic, value, count)
    _await_tier(broker, count)


def _await_tier(broker: RunningBroker, count: int) -> None:
    """Returns when most of the topic is in the tier only, as what follows will be."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST_LOCAL)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="tiered", partitions=[wanted])]
    )
    with WireClient(broker.host, broker.port) as client:
        while client.ask(request, 8).topics[0].partitions[0].offset < count // 2:
            time.sleep(0.1)


def _consume(broker: RunningBroker, topic: str, count: int) -> tuple[float, float]:
    """Seconds to receive them, and the broker's processor time."""
    before = _cpu_s(broker)
    source = clients.consumer(broker.address)
    try:
        clients.read_from(source, topic, 0)
        taken = seconds_of(lambda: clients.consume_all(source, count, count * RECORD_SIZE))
    finally:
        source.close()
    return taken, _cpu_s(broker) - before


def _cpu_s(broker: RunningBroker) -> float:
    cost = cost_of(broker.pid)
    return 0.0 if cost is None else cost.cpu_seconds


# Many segments


def _many_segments(scale: Scale) -> Report:
    count = scale.of(SEGMENT_COUNT, 20)
    report = figures_report(f"A broker whose log has {count:,} segments in a tier")
    with scale.data_directory() as directory:
        (directory / "tier").mkdir()
        _describe(directory, count)
        starts = {
            "without the tier": partial(_start, directory, (), scale),
            "with the tier": partial(_start, directory, arguments(settings_of(directory)), scale),
        }
        costs = scale.take_turns(starts)
    cpu = {name: Samples(tuple(one for one, _ in some)) for name, some in costs.items()}
    memory = {name: Samples(tuple(one for _, one in some)) for name, some in costs.items()}
    for name in starts:
        add_figure(report, f"processor time until it is ready, {name}", cpu[name], "s")
        add_figure(report, f"memory, {name}", memory[name].scaled(1 / MEGABYTE), "MB")
    ratio = cpu["with the tier"].over(cpu["without the tier"])
    add_figure(report, "the start, with over without", ratio, "times", START_TARGET)
    pairs = zip(memory["with the tier"].values, memory["without the tier"].values, strict=True)
    each = Samples(tuple((mine - its) / count for mine, its in pairs))
    add_figure(report, "memory of a segment", each, "bytes", MEMORY_TARGET)
    return report


def _start(directory: Path, settings: tuple[str, ...], scale: Scale) -> tuple[float, float]:
    """The broker's processor time until it is ready, and its memory once all records are read."""
    with Ottla(settings).start(directory / "data") as broker:
        ready = _cpu_s(broker)
        time.sleep(scale.of(int(SETTLE_S * 1000), 1) / 1000)
        cost = cost_of(broker.pid)
        return ready, 0.0 if cost is None else float(cost.resident_bytes)


def _describe(directory: Path, count: int) -> None:
    """A log that starts after `count` segments, of which the tier's records say that it has them;
    their objects are not needed to start.
    """
    idle = {"remote.log.manager.task.interval.ms": "600000"}
    with ottla.open(directory / "data", settings_of(directory, **idle)) as log:
        log.create_topic("cold", config={"remote.storage.enable": "true", "retention.ms": "-1"})
        partition = log.broker.topics.get("cold").partition(0)

        def start_after(broker: Broker, at: Timestamps) -> None:
            partition.log.maintenance.truncate_fully_and_start_at(
                10 * count, now_ms=at.now_ms, log_start=0
            )
            assert broker.remote_logs is not None
            broker.remote_logs.metadata.prepare()

        log.hold(start_after)
        for first in range(0, count, AT_ONCE):
            log.hold(partial(_publish, range(first, min(first + AT_ONCE, count))))


def _publish(numbers: range, broker: Broker, at: Timestamps) -> None:
    assert broker.remote_logs is not None
    place = TopicIdPartition("cold", broker.topics.get("cold").topic_id, 0)
    for number in numbers:
        segment = RemoteLogSegmentMetadata(
            partition=place,
            segment_id=Uuid(os.urandom(16)),
            start_offset=10 * number,
            end_offset=10 * number + 9,
            broker_id=1,
            max_timestamp_ms=at.now_ms,
            event_timestamp_ms=at.now_ms,
            leader_epochs=((0, 10 * number),),
            size=1000,
        )
        finished = SegmentUpdate(
            partition=place,
            segment_id=segment.segment_id,
            broker_id=1,
            event_timestamp_ms=at.now_ms,
            state=SegmentState.COPY_SEGMENT_FINISHED,
            custom_metadata=None,
        )
        for event in (segment, finished):
            broker.remote_logs.metadata.publish(event, at)
