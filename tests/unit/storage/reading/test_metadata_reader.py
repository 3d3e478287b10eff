"""Which uploads the files of `__remote_log_metadata` say there are, also if some are damaged."""

from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import CLEAN_SHUTDOWN, REMOTE_LOG_METADATA
from ottla.storage.findings import FindingKind
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.remote.metadata_records import Event, encode_event
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, open_directory
from tests.support.remote_segments import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    number_id,
    number_of,
    update,
    upload,
)

TOPIC = REMOTE_LOG_METADATA
OTHER = replace(PARTITION, topic="u", topic_id=number_id(9))


def write(
    disk: FakeFileSystem, partitions: dict[int, list[Event | bytes]], path: str = DIRECTORY
) -> None:
    """A batch for each record."""
    directory = open_directory(disk, path=path)
    for partition, events in partitions.items():
        log = directory.create_log(TOPIC, partition, number_id(5))
        for event in events:
            value = event if isinstance(event, bytes) else encode_event(event)
            builder = RecordBatchBuilder()
            builder.append(None, value, NOW_MS)
            log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        log.writer.write_out()
    directory.close()


def read(disk: FakeFileSystem, *paths: str) -> RemoteLogMetadata:
    return read_remote_log_metadata(
        [open_for_reading(path, disk) for path in paths or (DIRECTORY,)]
    )


def found(metadata: RemoteLogMetadata) -> dict[str, list[tuple[int | None, str]]]:
    return {
        one.partition.topic: [
            (number_of(segment), segment.state.name) for segment in one.segments()
        ]
        for one in metadata.indexes
    }


def test_every_partition_of_the_topic_is_read() -> None:
    disk = FakeFileSystem()
    write(
        disk,
        {
            0: [upload(1, 0, 9, state=STARTED), update(1, FINISHED)],
            3: [upload(2, 0, 9, state=STARTED, partition=OTHER)],
        },
    )
    write(disk, {1: []}, path="other")
    metadata = read(disk, DIRECTORY, "other")
    assert found(metadata) == {
        "t": [(1, "COPY_SEGMENT_FINISHED")],
        "u": [(2, "COPY_SEGMENT_STARTED")],
    }
    assert (metadata.partitions, metadata.findings) == ((0, 1, 3), ())


def test_a_directory_without_the_topic_has_no_uploads() -> None:
    disk = FakeFileSystem()
    open_directory(disk).close()
    metadata = read(disk)
    assert (found(metadata), metadata.partitions, metadata.findings) == ({}, (), ())


def test_records_that_cannot_be_read_are_named_and_the_others_used() -> None:
    disk = FakeFileSystem()
    values: list[Event | bytes] = [
        upload(1, 0, 9, state=STARTED),
        b"",
        b"\x01\x09\x00\x00",
        encode_event(update(1, FINISHED))[:-1],
        update(1, FINISHED),
        update(1, DELETED),
        update(2, DELETING),
    ]
    write(disk, {0: values})
    metadata = read(disk)
    assert found(metadata) == {"t": [(1, "COPY_SEGMENT_FINISHED")]}
    texts = [one.text.removeprefix(f"{DIRECTORY}/{TOPIC}-0: ") for one in metadata.findings]
    starts = [
        "the record at offset 1: a metadata record: ",
        "the record at offset 2: metadata record 9 of version 0 is not known here; what it says",
        "the record at offset 3: ",
        "the record at offset 5: upload AAAAAAAAAAAAAAAAAAAAAQ is DELETE_SEGMENT_FINISHED after ",
        "the record at offset 6: upload AAAAAAAAAAAAAAAAAAAAAg is unknown, and now DELETE_SEGMENT",
    ]
    assert [text[: len(start)] for text, start in zip(texts, starts, strict=True)] == starts
    assert {one.kind for one in metadata.findings} == {FindingKind.REMOTE_LOG_METADATA}


def test_a_damaged_batch_is_named_and_the_others_used_whatever_the_directory_does() -> None:
    disk = FakeFileSystem()
    events: list[Event | bytes] = [
        upload(number, number * 10, number * 10 + 9, state=STARTED) for number in range(3)
    ]
    write(disk, {0: events})
    path = f"{DIRECTORY}/{TOPIC}-0/00000000000000000000.log"
    file = disk.open(path, writable=True)
    middle = file.size() // 2
    file.pwrite(bytes([file.pread(1, middle)[0] ^ 1]), middle)
    metadata = read(disk)
    assert found(metadata) == {"t": [(0, "COPY_SEGMENT_STARTED"), (2, "COPY_SEGMENT_STARTED")]}
    (damage,) = metadata.findings
    assert (damage.kind, damage.path) == (FindingKind.LOG_DAMAGE, path)
    assert "offset 1 cannot be read" in damage.unreadable_text
    with pytest.raises(CorruptionError):
        list(open_for_reading(DIRECTORY, disk).partition(TOPIC, 0).records.read(0))


def test_a_lost_partition_is_named() -> None:
    disk = FakeFileSystem()
    write(disk, {0: [upload(1, 0, 9, state=STARTED)], 1: [update(3, FINISHED)]})
    for name in disk.list(f"{DIRECTORY}/{TOPIC}-1"):
        disk.remove(f"{DIRECTORY}/{TOPIC}-1/{name}")
    disk.remove_directory(f"{DIRECTORY}/{TOPIC}-1")
    metadata = read(disk)
    assert found(metadata) == {"t": [(1, "COPY_SEGMENT_STARTED")]}
    assert metadata.partitions == (0, 1)
    (lost,) = metadata.findings
    assert lost.kind is FindingKind.LOST_PARTITION
    assert f"{TOPIC}-1 is not there" in lost.reason


def test_records_that_were_deleted_are_mentioned() -> None:
    disk = FakeFileSystem()
    write(disk, {0: [update(1, DELETED), upload(1, 0, 9, state=STARTED)]})
    directory = open_directory(disk)
    directory.logs[TOPIC, 0].maintenance.delete_records_before(1)
    directory.close()
    metadata = read(disk)
    assert found(metadata) == {"t": [(1, "COPY_SEGMENT_STARTED")]}
    (note,) = metadata.findings
    assert (note.kind, note.is_note) == (FindingKind.STATE, True)
    assert "records before offset 1 were deleted" in note.reason


def test_directories_of_two_brokers_are_refused() -> None:
    disk = FakeFileSystem()
    for path in ("a", "b"):
        write(disk, {0: []}, path=path)
    with pytest.raises(UserError, match="name directories of one broker"):
        read(disk, "a", "b")
    assert disk.status(f"a/{CLEAN_SHUTDOWN}") is not None
