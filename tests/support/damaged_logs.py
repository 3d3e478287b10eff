"""A sound log directory, and a table of what can happen to it, for tests of check and repair."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from ottla.base.files import join, read_file
from ottla.codec.crc32c import crc32c
from ottla.record.batch import iter_batches
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.layout import ATTRIBUTES_POSITION, BASE_OFFSET, CRC_POSITION
from ottla.storage.files.filenames import (
    BOOT_NOTE,
    INTEGRITY,
    FileKind,
    FileName,
    log_file_name,
    producer_snapshot_file_name,
    transaction_index_file_name,
)
from ottla.storage.findings import FindingKind
from ottla.storage.index.producer_snapshot import format_snapshot, parse_snapshot
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import FakeClock, FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, append, batch, fill, open_directory

PARTITION = "data/t-0"
Place = tuple[str, int | None]


@dataclass
class Files:
    """A log directory's content, to be damaged: names below it, and their bytes."""

    content: dict[str, bytearray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bytearray:
        return self.content[name]

    def __setitem__(self, name: str, content: bytearray) -> None:
        self.content[name] = content

    def disk(self, now_ms: int = NOW_MS) -> FakeFileSystem:
        """A disk with the content, synced; its files were all written at that time."""
        disk = FakeFileSystem(FakeClock(now_ms))
        for path, content in self.content.items():
            disk.make_directory(path.rpartition("/")[0])
            file = disk.open(path, create=True)
            file.pwrite(bytes(content), 0)
            file.sync()
            file.close()
        for directory in (".", "data", *(path.rpartition("/")[0] for path in self.content)):
            disk.sync_directory(directory)
        return disk

    @property
    def bases(self) -> list[int]:
        """The base offsets of the partition's segments."""
        ending = ".log"
        return sorted(
            int(path[len(PARTITION) + 1 : -len(ending)])
            for path in self.content
            if path.startswith(PARTITION) and path.endswith(ending)
        )

    def log(self, number: int) -> str:
        return f"{PARTITION}/{log_file_name(self.bases[number])}"

    def index(self, number: int) -> str:
        name = FileName(offset=self.bases[number], kind=FileKind.OFFSET_INDEX)
        return f"{PARTITION}/{name.text}"

    def time_index(self, number: int) -> str:
        name = FileName(offset=self.bases[number], kind=FileKind.TIME_INDEX)
        return f"{PARTITION}/{name.text}"

    def positions(self, number: int) -> list[int]:
        """Where the batches of a segment begin."""
        position, found = 0, []
        for one in iter_batches(self[self.log(number)]):
            found.append(position)
            position += one.size
        return found

    @property
    def transaction_index(self) -> str:
        """The first one that has an entry."""
        names = (f"{PARTITION}/{transaction_index_file_name(base)}" for base in self.bases)
        return next(name for name in names if self.content.get(name))

    @property
    def newest_snapshot(self) -> str:
        names = (name for name in self.content if name.startswith(PARTITION))
        return max(name for name in names if name.endswith(".snapshot"))

    @property
    def epochs(self) -> str:
        return f"{PARTITION}/leader-epoch-checkpoint"


def sound_files() -> Files:
    return Files({path: bytearray(content) for path, content in _sound_content().items()})


@cache
def _sound_content() -> dict[str, bytes]:
    """Two partitions; the first has several segments, two epochs, commits and aborts."""
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(directory.create_log("t", 1, TOPIC_ID), 2)
    fill(log, 5)
    for number in range(4):
        _transaction(log, producer_id=7 + number % 2, is_commit=number % 2 == 0)
    log.writer.append_as_leader(batch(b"in", b"epoch", b"one"), leader_epoch=1, now_ms=NOW_MS)
    log.writer.write_out()
    last = batch(b"x", producer_id=3, producer_epoch=0, base_sequence=0, timestamp_ms=NOW_MS + 5)
    for records in (last, *(batch(b"more", b"of it") for _ in range(6))):
        log.writer.append_as_leader(records, leader_epoch=1, now_ms=NOW_MS)
        log.writer.write_out()
    directory.close()
    return {
        join(folder, name): read_file(disk, join(folder, name))
        for folder in ("data", PARTITION, "data/t-1")
        for name in disk.list(folder)
        if name != ".lock" and not name.startswith("t-")
    }


def _transaction(log: PartitionLog, *, producer_id: int, is_commit: bool) -> None:
    entry = log.producers.entries.get(producer_id)
    sequence = entry.last_sequence + 1 if entry else 0
    append(
        log, b"a", b"b",
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True,
    )  # fmt: skip
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0)
    records = build_end_transaction_marker(
        marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS
    )
    origin = AppendOrigin.COORDINATOR
    log.writer.append_as_leader(bytearray(records), leader_epoch=0, now_ms=NOW_MS, origin=origin)
    log.writer.write_out()


def with_right_checksum(content: bytearray, position: int) -> None:
    """Makes a batch's checksum that of its changed content."""
    (length,) = struct.unpack_from(">i", content, position + 8)
    view = memoryview(content)[position + ATTRIBUTES_POSITION : position + 12 + length]
    struct.pack_into(">I", content, position + CRC_POSITION, crc32c(view))


# Damage to logs; each returns the place that a check must name.


def bad_record(files: Files) -> Place:
    position = files.positions(0)[1]
    files[files.log(0)][position + 70] ^= 1
    return files.log(0), position


def torn_tail(files: Files) -> Place:
    position = files.positions(-1)[-1]
    del files[files.log(-1)][-3:]
    return files.log(-1), position


def garbage_after(files: Files) -> Place:
    end = len(files[files.log(-1)])
    files[files.log(-1)] += b"nonsense" * 20
    return files.log(-1), end


def zeros_after(files: Files) -> Place:
    end = len(files[files.log(-1)])
    files[files.log(-1)] += bytes(4096)
    return files.log(-1), end


def torn_old_segment(files: Files) -> Place:
    position = files.positions(1)[-1]
    del files[files.log(1)][-3:]
    return files.log(1), position


def hole_in_old_segment(files: Files) -> Place:
    first, second, *_ = files.positions(1)
    files[files.log(1)][first:second] = bytes(second - first)
    return files.log(1), first


def offset_too_high(files: Files) -> Place:
    position = files.positions(-1)[0]
    files[files.log(-1)][position + 5] ^= 1
    return files.log(-1), position


def offset_of_the_next_batch(files: Files) -> Place:
    second, third = files.positions(0)[1:3]
    content = files[files.log(0)]
    content[second : second + 8] = content[third : third + 8]
    return files.log(0), second


def offset_of_another_segment(files: Files) -> Place:
    position = files.positions(0)[-1]
    BASE_OFFSET.pack_into(files[files.log(0)], position, files.bases[1])
    return files.log(0), position


def repeated_batch(files: Files) -> Place:
    content = files[files.log(-1)]
    end = len(content)
    content += content[files.positions(-1)[-1] :]
    return files.log(-1), end


def bad_length(files: Files) -> Place:
    position = files.positions(0)[1]
    files[files.log(0)][position + 8] ^= 0x40
    return files.log(0), position


def too_many_records(files: Files) -> Place:
    position = files.positions(0)[1]
    files[files.log(0)][position + 60] = 200
    with_right_checksum(files[files.log(0)], position)
    return files.log(0), position


def garbled_records(files: Files) -> Place:
    position = files.positions(0)[1]
    files[files.log(0)][position + 61] ^= 2
    with_right_checksum(files[files.log(0)], position)
    return files.log(0), position


def lost_log(files: Files) -> Place:
    name = files.index(1)
    del files.content[files.log(1)]
    return name, None


def lost_segment(files: Files) -> Place:
    """All files of a segment, before a stop that was a power failure."""
    base_offset = files.bases[1]
    behind = files.log(2)
    for name in [one for one in files.content if f"/{base_offset:020d}." in one]:
        del files.content[name]
    del files.content["data/.kafka_cleanshutdown"]
    del files.content[f"data/{BOOT_NOTE}"]
    files["data/recovery-point-offset-checkpoint"][:] = b"0\n1\nt 0 5\n"
    return behind, None


def epoch_goes_back(files: Files) -> Place:
    position = files.positions(-1)[-1]
    struct.pack_into(">i", files[files.log(-1)], position + 12, 0)
    return files.log(-1), position


# Indexes


def index_offset(files: Files) -> Place:
    files[files.index(0)][3] += 1
    return files.index(0), 0


def index_position(files: Files) -> Place:
    files[files.index(0)][7] += 1
    return files.index(0), 0


def index_order(files: Files) -> Place:
    content = files[files.index(1)]
    content[0:16] = content[8:16] + content[0:8]
    return files.index(1), 8


def index_excess(files: Files) -> Place:
    end = len(files[files.index(0)])
    files[files.index(0)] += b"\1\2\3"
    return files.index(0), end


def index_behind_log(files: Files) -> Place:
    end = len(files[files.index(-1)])
    files[files.index(-1)] += struct.pack(">ii", 1000, 100_000)
    return files.index(-1), end


def index_of_ones(files: Files) -> Place:
    files[files.index(0)][:] = b"\xff" * 33
    return files.index(0), 0


def missing_index(files: Files) -> Place:
    name = files.index(1)
    del files.content[name]
    return name, None


def missing_time_index(files: Files) -> Place:
    name = files.time_index(0)
    del files.content[name]
    return name, None


def time_index_timestamp(files: Files) -> Place:
    files[files.time_index(0)][7] ^= 1
    return files.time_index(0), 0


def empty_time_index(files: Files) -> Place:
    files[files.time_index(0)].clear()
    return files.time_index(0), 0


def lost_transaction_index(files: Files) -> Place:
    name = files.transaction_index
    del files.content[name]
    return name, 0


def transaction_index_field(files: Files) -> Place:
    files[files.transaction_index][17] ^= 1
    return files.transaction_index, 0


def cut_transaction_index(files: Files) -> Place:
    del files[files.transaction_index][-1:]
    return files.transaction_index, len(files[files.transaction_index]) // 34 * 34


# What a log remembers


def snapshot_checksum(files: Files) -> Place:
    files[files.newest_snapshot][-1] ^= 1
    return files.newest_snapshot, 2


def another_snapshot(files: Files) -> Place:
    files[files.newest_snapshot][:] = format_snapshot([])
    return files.newest_snapshot, 2


def forget_checksums(files: Files) -> None:
    """As where Kafka has taken the snapshots."""
    lines = files[f"{PARTITION}/{INTEGRITY}"]
    kept = [one for one in lines.splitlines(keepends=True) if not one.startswith(b"snapshot")]
    lines[:] = b"".join(kept)


def snapshot_content(files: Files) -> Place:
    forget_checksums(files)
    name = files.newest_snapshot
    entries = parse_snapshot(name, bytes(files[name]))
    entries[-1] = replace(entries[-1], last_sequence=entries[-1].last_sequence + 1)
    files[name][:] = format_snapshot(entries)
    return name, None


def snapshot_beyond_log(files: Files) -> Place:
    name = f"{PARTITION}/{producer_snapshot_file_name(10_000)}"
    files.content[name] = bytearray(format_snapshot([]))
    return name, None


def epochs_garbled(files: Files) -> Place:
    files[files.epochs][:] = b"0\n2\n0 0\nx 3\n"
    return files.epochs, 8


def epochs_descend(files: Files) -> Place:
    files[files.epochs][:] = b"0\n2\n1 20\n0 30\n"
    return files.epochs, 9


def epochs_missing(files: Files) -> Place:
    name = files.epochs
    del files.content[name]
    return name, None


def epochs_too_early(files: Files) -> Place:
    files[files.epochs][:] = b"0\n2\n0 0\n1 7\n"
    return files.epochs, None


def epochs_too_many(files: Files) -> Place:
    files[files.epochs] += b"2 5000\n"
    files[files.epochs][2] = ord("3")
    return files.epochs, None


def metadata_garbled(files: Files) -> Place:
    files[f"{PARTITION}/partition.metadata"][:] = b"version: 0\ntopic_id: short"
    return f"{PARTITION}/partition.metadata", 21


def metadata_of_another_topic(files: Files) -> Place:
    name = f"{PARTITION}/partition.metadata"
    files[name][:] = b"version: 0\ntopic_id: DwnkyiG4SrqCMhmWMTi7iw"
    return name, None


def empty_log_inside(files: Files) -> Place:
    base_offset = files.bases[0] + 1
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX):
        files[f"{PARTITION}/{FileName(offset=base_offset, kind=kind).text}"] = bytearray()
    return f"{PARTITION}/{log_file_name(base_offset)}", None


def unfinished_swap(files: Files) -> Place:
    names = files.log(0), files.index(0), files.time_index(0)
    for name in names:
        files[name + ".swap"] = files.content.pop(name)
    return names[0] + ".swap", None


# The directory


def checkpoint_garbled(files: Files) -> Place:
    files["data/recovery-point-offset-checkpoint"][:] = b"0\n1\nt zero 5\n"
    return "data/recovery-point-offset-checkpoint", 4


def high_watermark_beyond_log(files: Files) -> Place:
    files["data/replication-offset-checkpoint"][:] = b"0\n2\nt 0 5000\nt 1 4\n"
    return "data/replication-offset-checkpoint", None


@dataclass(frozen=True)
class Case:
    apply: Callable[[Files], Place]
    kind: FindingKind
    reason: str
    """Words of the reason that a check gives."""

    @property
    def name(self) -> str:
        return self.apply.__name__


LOG_CASES = [
    Case(bad_record, FindingKind.LOG_DAMAGE, "CRC"),
    Case(torn_tail, FindingKind.LOG_DAMAGE, "cut short"),
    Case(garbage_after, FindingKind.LOG_DAMAGE, "unknown magic"),
    Case(zeros_after, FindingKind.LOG_DAMAGE, "4096 zero bytes"),
    Case(torn_old_segment, FindingKind.LOG_DAMAGE, "cut short"),
    Case(hole_in_old_segment, FindingKind.LOG_DAMAGE, "the log continues at byte"),
    Case(repeated_batch, FindingKind.LOG_DAMAGE, "out of place"),
    Case(bad_length, FindingKind.LOG_DAMAGE, "cut short"),
    Case(too_many_records, FindingKind.LOG_DAMAGE, "200 records in 2 offsets"),
    Case(garbled_records, FindingKind.LOG_DAMAGE, "the CRC is right, but"),
]
"""Damage to a log that takes records away."""

DERIVED_CASES = [
    Case(offset_too_high, FindingKind.BATCH_OFFSET, "it fits at offset 30"),
    Case(offset_of_the_next_batch, FindingKind.BATCH_OFFSET, "it fits at offset 2"),
    Case(offset_of_another_segment, FindingKind.BATCH_OFFSET, "the segment ends before offset 12"),
    Case(index_offset, FindingKind.OFFSET_INDEX, "offset"),
    Case(index_position, FindingKind.OFFSET_INDEX, "no batch begins at position"),
    Case(index_order, FindingKind.OFFSET_INDEX, "does not come after"),
    Case(index_excess, FindingKind.OFFSET_INDEX, "3 bytes are not a whole entry"),
    Case(index_behind_log, FindingKind.OFFSET_INDEX, "after the log's end"),
    Case(index_of_ones, FindingKind.OFFSET_INDEX, "more wrong entries"),
    Case(missing_index, FindingKind.MISSING_INDEX, "is missing"),
    Case(missing_time_index, FindingKind.MISSING_INDEX, "is missing"),
    Case(time_index_timestamp, FindingKind.TIME_INDEX, "is not the largest"),
    Case(empty_time_index, FindingKind.TIME_INDEX, "largest timestamp"),
    Case(lost_transaction_index, FindingKind.TRANSACTION_INDEX, "is missing"),
    Case(transaction_index_field, FindingKind.TRANSACTION_INDEX, "contradicts the log"),
    Case(cut_transaction_index, FindingKind.TRANSACTION_INDEX, "not an entry"),
    Case(snapshot_checksum, FindingKind.PRODUCER_SNAPSHOT, "checksum"),
    Case(another_snapshot, FindingKind.PRODUCER_SNAPSHOT, "not the snapshot that was taken here"),
    Case(snapshot_content, FindingKind.PRODUCER_SNAPSHOT, "last sequence"),
    Case(snapshot_beyond_log, FindingKind.PRODUCER_SNAPSHOT, "after the log's end"),
    Case(epochs_garbled, FindingKind.LEADER_EPOCHS, "line 4"),
    Case(epochs_descend, FindingKind.LEADER_EPOCHS, "does not come after epoch 1"),
    Case(epochs_missing, FindingKind.LEADER_EPOCHS, "is missing"),
    Case(epochs_too_early, FindingKind.LEADER_EPOCHS, "has epoch 1 for offset"),
    Case(epochs_too_many, FindingKind.LEADER_EPOCHS, "epoch 2 begins at offset 5000, after"),
    Case(metadata_garbled, FindingKind.PARTITION_METADATA, "is not a Kafka id"),
    Case(
        metadata_of_another_topic, FindingKind.PARTITION_METADATA, "remove the file that is wrong"
    ),
    Case(unfinished_swap, FindingKind.UNFINISHED_SWAP, "has not replaced"),
    Case(empty_log_inside, FindingKind.EMPTY_LOG, "lies inside the segment before it"),
    Case(checkpoint_garbled, FindingKind.CHECKPOINT, "line 3"),
    Case(high_watermark_beyond_log, FindingKind.CHECKPOINT_ENTRY, "5000 of t-0 is outside"),
]
"""Damage to what can be rebuilt from the logs: no record is lost."""

OTHER_CASES = [
    Case(lost_segment, FindingKind.GAP, "the next start would drop it"),
    Case(lost_log, FindingKind.ORPHAN_INDEX, "its segment's records are lost"),
    Case(
        epoch_goes_back,
        FindingKind.BATCH_EPOCH,
        "leader epoch 0 of offset 36 is out of order, and should be 1",
    ),
]
