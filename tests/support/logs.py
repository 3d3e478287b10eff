"""Opening and filling logs in tests, over any file system, without clock or chance."""

from itertools import count

from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.codec.compression import Compression
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record, read_records
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.log.append import AppendInfo
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(bytes(range(1, 17)))
DIRECTORY = "data"

SMALL = TopicConfig(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=240)


def open_directory(
    file_system: FileSystem, config: TopicConfig = SMALL, path: str = DIRECTORY
) -> LogDirectory:
    numbers = count(1)
    options = OpenOptions(
        now_ms=NOW_MS,
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=lambda: Uuid(next(numbers).to_bytes(16, "big")),
        random_below=lambda bound: 0,
        topic_config=lambda topic: config,
    )
    return LogDirectory.open(path, file_system, options)


def open_log(file_system: FileSystem, config: TopicConfig = SMALL) -> PartitionLog:
    """Partition 0 of topic "t", made if it is not there."""
    directory = open_directory(file_system, config)
    return directory.logs.get(("t", 0)) or directory.create_log("t", 0, TOPIC_ID)


def batch(*values: bytes | None, timestamp_ms: int = NOW_MS, **attributes: object) -> bytearray:
    builder = RecordBatchBuilder(**attributes)  # type: ignore[arg-type]
    for value in values:
        builder.append(b"key", value, timestamp_ms)
    return bytearray(builder.build())


def append(log: PartitionLog, *values: bytes | None, **attributes: object) -> AppendInfo:
    info = log.writer.append_as_leader(batch(*values, **attributes), leader_epoch=0, now_ms=NOW_MS)
    log.writer.write_out()
    return info


def fill(log: PartitionLog, batches: int, *, compression: Compression = Compression.NONE) -> None:
    """Appends batches of two records, whose values tell their offsets."""
    for _ in range(batches):
        first = log.log_end_offset
        append(log, b"%d" % first, b"%d" % (first + 1), compression=compression)


def leave_to_tier(log: PartitionLog, segment_count: int) -> int:
    """Deletes the first segments as if a tier had them; returns the local start."""
    log.writer.flush()
    start = log.segments.values[segment_count].base_offset
    log.offsets.highest_remote_offset = start - 1
    log.maintenance.leave_to_tier(start)
    log.maintenance.delete_segments_below_start()
    return start


def read_all(
    log: PartitionLog, offset: int | None = None, isolation: Isolation = Isolation.HIGH_WATERMARK
) -> list[Record]:
    """Every record from an offset on, through many small reads as a consumer makes them."""
    found: list[Record] = []
    next_offset = log.log_start_offset if offset is None else offset
    while True:
        data = log.reader.read(next_offset, 200, isolation)
        if data.records is None:
            return found
        for one in iter_batches(data.records.read(), allow_torn_tail=True):
            found.extend(record for record in read_records(one) if record.offset >= next_offset)
            next_offset = one.last_offset + 1


def values(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in read_all(log, offset)]
