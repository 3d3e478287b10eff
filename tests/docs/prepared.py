"""Directories that lines of pages look at: `python -m tests.docs.prepared NAME DIRECTORY`."""

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import ottla
from ottla.base.files import OsFileSystem
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionTopic,
    encode_key,
    encode_value,
)
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.files.filenames import PARTITION_METADATA
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.remote.segment_metadata import TopicIdPartition
from tests.support.tiered import uploaded
from tests.support.tiers import local_objects, put

BEGIN_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
BOOKS = ("Emma", "Dracula", "Ulysses", "Persuasion", "Villette", "Walden", "", "Middlemarch")
ONGOING, COMPLETE_ABORT = 1, 5


def books(directory: str) -> None:
    """A partition of two segments, with an aborted transaction."""
    with ottla.open(directory, {"log.retention.ms": -1}) as log:
        log.create_topic("orders")
        _append_books(log, 0, 2)
        _append_books(log, 2, 3)
        _append_books(log, 5, 1, producer_id=1000)
        log.broker.topics.partition("orders", 0).log.writer.roll(BEGIN_MS + 9000)
        _end(log, producer_id=1000, at_ms=BEGIN_MS + 9000)
        _append_books(log, 7, 2)


def tier_of(data: Path, tier: Path) -> None:
    """Two uploads of the first partition of `orders`, as if a broker had copied them."""
    topic_id = read_topic_id(OsFileSystem(), str(data / "orders-0" / PARTITION_METADATA))
    assert topic_id is not None
    place = TopicIdPartition("orders", topic_id, 0)
    for one in (uploaded(1, 0, 9), uploaded(2, 10, 19)):
        segment = replace(one.metadata, partition=place)
        put(tier, local_objects(replace(one, metadata=segment)))


def _append_books(log: Log, first: int, count: int, producer_id: int = -1) -> None:
    is_transactional = producer_id != -1
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )
    for number in range(first, first + count):
        value = f'{{"book": "{BOOKS[number % len(BOOKS)]}", "count": 1}}'
        builder.append(b"%d" % number, value.encode(), BEGIN_MS + 1500 * number)
    log.append_batch("orders", 0, builder)


def _end(log: Log, producer_id: int, at_ms: int) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=at_ms,
    )
    writer = log.broker.topics.partition("orders", 0).log.writer
    writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=at_ms, origin=AppendOrigin.COORDINATOR
    )
    writer.write_out()


def damage(directory: str) -> None:
    """A byte is wrong in the first segment of `books`, and the second is cut short."""
    first, second = sorted(Path(directory, "orders-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[220] ^= 1
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:-20])


def lost(directory: str) -> None:
    """A partition that only a checkpoint still names."""
    with ottla.open(directory) as log:
        log.create_topic("orders")
        log.append_many("orders", [b"tea"] * 1042)
    for path in Path(directory, "orders-0").iterdir():
        path.unlink()
    Path(directory, "orders-0").rmdir()


def clicks(directory: str) -> None:
    """A segment for each record; the second record is dated later than those after it."""
    settings = {"retention.ms": 24 * HOUR_MS, "segment.bytes": 250}
    _fill(directory, "clicks", settings, [30, -10, 30, 1])


def ahead(directory: str) -> None:
    """Its files are an hour younger than the clock says."""
    later_s = time.time() + 3600
    for path in Path(directory).glob("*-checkpoint"):
        os.utime(path, (later_s, later_s))


def accounts(directory: str) -> None:
    settings = {"cleanup.policy": "compact", "segment.bytes": 200}
    _fill(directory, "accounts", settings, [26, 9, 8, 7, 1, 1])


def _fill(directory: str, topic: str, config: dict[str, object], ages_h: list[int]) -> None:
    settings = {"log.cleaner.enable": False, "log.retention.check.interval.ms": 1 << 40}
    with ottla.open(directory, settings) as log:
        log.create_topic(topic, config=config)
        for age in ages_h:
            at_ms = BEGIN_MS - age * HOUR_MS
            log.append(topic, b"x" * 99, b"k", timestamp_ms=at_ms)


def unconfirmed(directory: str) -> None:
    """Topics as a broker of Kafka leaves them whose settings were in ZooKeeper."""
    with ottla.open(directory) as log:
        for topic in ("orders", "audit", "plain"):
            log.create_topic(topic)
            log.append(topic, b"tea", timestamp_ms=BEGIN_MS)
    shutil.rmtree(Path(directory, "__cluster_metadata-0"))
    for path in Path(directory).glob("ottla-*"):
        path.unlink()


def tills(directory: str) -> None:
    """Two open transactions; the coordinator knows of one of them."""
    now_ms = time.time_ns() // 1_000_000
    with ottla.open(directory, {"transaction.state.log.num.partitions": 1}) as log:
        log.create_topic("orders")
        log.create_topic("__transaction_state")
        log.append("orders", b"a pot of tea")
        for name, producer_id, status in (
            ("till-1", 1005, COMPLETE_ABORT),
            ("till-2", 1007, ONGOING),
        ):
            value = TransactionLogValue(
                producer_id=producer_id,
                producer_epoch=3,
                transaction_timeout_ms=900_000,
                transaction_status=status,
                transaction_partitions=[TransactionTopic(topic="orders", partition_ids=[0])],
                transaction_last_update_timestamp_ms=now_ms,
                transaction_start_timestamp_ms=now_ms,
            )
            key = encode_key(TransactionLogKey(transactional_id=name))
            log.append("__transaction_state", encode_value(value), key=key)
            builder = RecordBatchBuilder(
                producer_id=producer_id, producer_epoch=3, base_sequence=0, is_transactional=True
            )
            builder.append(b"k", b"v", now_ms)
            log.append_batch("orders", 0, builder)


if __name__ == "__main__":
    name, where = sys.argv[1:]
    globals()[name](where)
