"""Partition logs without a broker above them, and batches to put in."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import touch_file
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.config.topic import TopicConfig
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.filenames import log_file_name
from ottla.storage.log.partition_log import PartitionLog

CHANCE = random.Random(20)
"""Seeded: the same offsets are looked up in every run."""

RECORD_OVERHEAD = 12
"""About what a record without key and headers adds to its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a segment is filled with: its batches."""

    name: str
    record_count: int
    value_size: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_id() -> Uuid:
    return Uuid(CHANCE.randbytes(16))


def open_logs(path: Path, config: TopicConfig | None = None) -> LogDirectory:
    """A log directory on the machine's own disk; segments are of 1 GiB by default."""
    wanted = config or TopicConfig()
    options = OpenOptions(
        now_ms=now_ms(),
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=new_id,
        random_below=CHANCE.randrange,
        topic_config=lambda topic: wanted,
    )
    return LogDirectory.open(str(path), OsFileSystem(), options)


def new_log(logs: LogDirectory, topic: str, touched_size: int = 0) -> PartitionLog:
    """A new partition, the first bytes of whose file are in the page cache already."""
    log = logs.create_log(topic, 0, new_id())
    touch_file(Path(log.directory) / log_file_name(0), touched_size)
    return log


def batch_of(record_count: int, value_size: int, **attributes: int) -> bytearray:
    """An uncompressed batch as a client sends it."""
    builder = RecordBatchBuilder(**attributes)  # type: ignore[arg-type]
    value = CHANCE.randbytes(value_size)
    time_ms = now_ms()
    for _ in range(record_count):
        builder.append(None, value, time_ms)
    return bytearray(builder.build())


def batch_of_size(size: int, value_size: int = 1000) -> bytearray:
    """A batch of about that many bytes."""
    return batch_of(max(1, size // (value_size + RECORD_OVERHEAD)), value_size)


def append_all(log: PartitionLog, batch: bytearray, count: int) -> None:
    """Appends the same batch again and again, as the server does it for one request a round."""
    time_ms = now_ms()
    for _ in range(count):
        batch[:8] = bytes(8)  # the base offset, which the append before has set
        log.writer.append_as_leader(batch, leader_epoch=0, now_ms=time_ms)
        log.writer.write_out()
