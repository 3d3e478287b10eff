"""Brokers over a disk in memory, for tests that need no socket."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.partition import Partition
from ottla.config.broker import BrokerConfig, broker_config
from ottla.config.topic import TopicConfig
from ottla.record.builder import RecordBatchBuilder
from ottla.testing import FakeFileSystem
from ottla.testing.clock import DEFAULT_NOW_MS

NOW_MS = DEFAULT_NOW_MS
TOPIC_DEFAULTS = TopicConfig(segment_index_bytes=1 << 16)
"""Of a topic in such a broker; the disk in memory keeps all zeros of an index."""
_numbers = itertools.count(1000)


def id_of(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def at(monotonic_ms: float) -> Timestamps:
    """A moment at which the wall clock stands still."""
    return Timestamps(now_ms=NOW_MS, monotonic_ms=monotonic_ms)


def disk(*directories: str) -> FakeFileSystem:
    """An empty disk on which the directories are durable."""
    file_system = FakeFileSystem()
    for directory in directories:
        file_system.make_directory(directory)
    file_system.sync_directory("/")
    return file_system


def open_broker(
    file_system: FileSystem, *paths: str, ids: Iterator[int] = _numbers, **settings: str
) -> Broker:
    """Settings are Kafka's names with `_` for `.`; no id is handed out twice in a run of tests."""
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(ids)),
        random_below=lambda _: 0,
        cluster_id="a-cluster-for-tests-01",
    )
    values = {"log.index.size.max.bytes": str(TOPIC_DEFAULTS.segment_index_bytes)}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    config = _config_of(tuple(values.items()))
    return assemble(paths or ("/d",), file_system, config, options)


@cache
def _config_of(values: tuple[tuple[str, str], ...]) -> BrokerConfig:
    """Crash tests open the same broker thousands of times."""
    return broker_config(dict(values))


def lead_in_next_epoch(broker: Broker, partition: Partition) -> None:
    """The broker leads a partition in another epoch, as after an election."""
    partition.leader_epoch += 1
    known = broker.image_store.image.topics[partition.topic]
    elected = replace(known.partitions[partition.index], leader_epoch=partition.leader_epoch)
    partitions = {**known.partitions, partition.index: elected}
    broker.image_store.show_topics([(known.name, known._replace(partitions=partitions))])


def batch(*values: bytes, timestamp_ms: int = NOW_MS, producer_id: int = -1) -> bytearray:
    """One v2 batch of records without keys, a millisecond apart."""
    is_idempotent = producer_id >= 0
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=0 if is_idempotent else -1,
        base_sequence=0 if is_idempotent else -1,
    )
    for number, value in enumerate(values or (b"value",)):
        builder.append(None, value, timestamp_ms + number)
    return bytearray(builder.build())
