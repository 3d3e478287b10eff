"""A log directory whose partition has a tier: its first segments are uploads, the last is local."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ottla.base.ids import Uuid, uuid_text
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    REMOTE_LOG_METADATA,
    log_file_name,
)
from ottla.storage.index.producer_snapshot import format_snapshot
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.metadata_records import (
    Event,
    SegmentUpdate,
    encode_event,
)
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tests.support.tiers import NOW_MS, Uploaded, local_objects, put

TOPIC = TopicIdPartition("orders", Uuid(bytes(15) + b"\7"), 0)


def batches(first: int, last: int, epoch: int = 0) -> list[bytes]:
    """Batches of two records; the value of a record is its offset."""
    made = []
    for start in range(first, last + 1, 2):
        builder = RecordBatchBuilder(start, leader_epoch=epoch)
        for offset in range(start, min(start + 1, last) + 1):
            builder.append(None, b"%d" % offset, NOW_MS + offset)
        made.append(builder.build())
    return made


def uploaded(number: int, first: int, last: int, epoch: int = 0) -> Uploaded:
    """An upload of these offsets, with an index entry for each batch but the first."""
    every = batches(first, last, epoch)
    offsets, times, position = b"", b"", 0
    for index, one in enumerate(every):
        if index:
            offsets += struct.pack(">ii", 2 * index + 1, position)
            times += struct.pack(">qi", NOW_MS + first + 2 * index + 1, 2 * index + 1)
        position += len(one)
    metadata = RemoteLogSegmentMetadata(
        partition=TOPIC,
        segment_id=Uuid(number.to_bytes(16, "big")),
        start_offset=first,
        end_offset=last,
        broker_id=1,
        max_timestamp_ms=NOW_MS + last,
        event_timestamp_ms=NOW_MS + last,
        leader_epochs=((epoch, first),),
        size=position,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    indexes = {
        IndexType.OFFSET: offsets,
        IndexType.TIMESTAMP: times,
        IndexType.PRODUCER_SNAPSHOT: format_snapshot([]),
        IndexType.LEADER_EPOCH: b"0\n1\n%d 0\n" % epoch,
    }
    return Uploaded(metadata, b"".join(every), indexes)


class TieredPlace:
    """Directories `data` and `tier`, as Kafka leaves them after a clean stop."""

    def __init__(
        self,
        root: Path,
        uploads: Sequence[Uploaded],
        *local: tuple[int, int],
        log_start: int = 0,
        epochs: Sequence[tuple[int, int]] = ((0, 0),),
    ) -> None:
        self.data, self.tier = root / "data", root / "tier"
        self.partition = self.data / "orders-0"
        self.partition.mkdir(parents=True)
        for first, last in local:
            (self.partition / log_file_name(first)).write_bytes(b"".join(batches(first, last)))
        (self.partition / PARTITION_METADATA).write_text(
            f"version: 0\ntopic_id: {uuid_text(TOPIC.topic_id)}\n"
        )
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
        (self.partition / LEADER_EPOCHS).write_text(f"0\n{len(epochs)}\n{lines}")
        (self.data / CHECKPOINT_LOG_START).write_text(f"0\n1\norders 0 {log_start}\n")
        (self.data / CHECKPOINT_RECOVERY_POINT).write_text(f"0\n1\norders 0 {last + 1}\n")
        (self.data / CLEAN_SHUTDOWN).write_text('{"version": 0, "brokerEpoch": -1}')
        for one in uploads:
            put(self.tier, local_objects(one))
        self.write_metadata(one.metadata for one in uploads)

    def write_metadata(self, segments: Iterable[RemoteLogSegmentMetadata]) -> None:
        """Replaces the records by those of uploads that were begun and finished in this order."""
        events: list[Event] = []
        for one in segments:
            events += _events_of(one)
        builder = RecordBatchBuilder(0, leader_epoch=0)
        for event in events:
            builder.append(None, encode_event(event), NOW_MS)
        folder = self.data / f"{REMOTE_LOG_METADATA}-0"
        folder.mkdir(exist_ok=True)
        (folder / log_file_name(0)).write_bytes(builder.build() if events else b"")

    @property
    def place(self) -> TierPlace:
        return TierPlace(address=str(self.tier))

    def directory(self) -> ReadOnlyLogDirectory:
        (directory,) = open_directories([str(self.data)], tier=self.place)
        return directory

    def log(self) -> ReadOnlyLog:
        return self.directory().partition("orders", 0)

    def offsets(self, start: int | None = None) -> list[int]:
        """What a reader gets, each record being that of its offset."""
        log = self.log()
        found = list(log.records.read(log.log_start_offset if start is None else start))
        assert [one.value for one in found] == [b"%d" % one.offset for one in found]
        return [one.offset for one in found]


def _events_of(segment: RemoteLogSegmentMetadata) -> list[Event]:
    finished = SegmentUpdate(
        partition=segment.partition,
        segment_id=segment.segment_id,
        broker_id=segment.broker_id,
        event_timestamp_ms=segment.event_timestamp_ms,
        state=SegmentState.COPY_SEGMENT_FINISHED,
        custom_metadata=None,
    )
    return [replace(segment, state=SegmentState.COPY_SEGMENT_STARTED), finished]
