"""A partition's directory under another's name is refused by readers of files, and named."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file
from ottla.base.ids import Uuid
from ottla.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import INTEGRITY, PARTITION_METADATA
from ottla.storage.findings import FindingKind
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, SMALL, append, open_directory
from tests.support.metadata import segment, write_records

IDS = {"t": Uuid(bytes(15) + b"t"), "u": Uuid(bytes(15) + b"u")}


def two_topics() -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk, SMALL)
    for name, topic_id in IDS.items():
        log = directory.create_log(name, 0, topic_id)
        append(log, name.encode())
        log.writer.write_out()
    directory.close()
    for name, topic_id in IDS.items():
        record = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[0], isr=[0])
        write_records(disk, TopicRecord(name=name, topic_id=topic_id), record, directory=DIRECTORY)
    return disk


def swap(disk: FileSystem) -> None:
    disk.rename(join(DIRECTORY, "t-0"), join(DIRECTORY, "between"))
    disk.rename(join(DIRECTORY, "u-0"), join(DIRECTORY, "t-0"))
    disk.rename(join(DIRECTORY, "between"), join(DIRECTORY, "u-0"))


def found(disk: FileSystem, name: str) -> list[bytes | None]:
    return [
        one.value for one in open_for_reading(DIRECTORY, disk).partition(name, 0).records.read(0)
    ]


def wrong_directories(disk: FileSystem) -> list[str]:
    findings = check(disk, DIRECTORY).findings
    return [one.path for one in findings if one.kind is FindingKind.WRONG_FILE]


def test_directories_in_their_places_are_read() -> None:
    disk = two_topics()
    assert [found(disk, name) for name in IDS] == [[b"t"], [b"u"]]
    assert wrong_directories(disk) == []


@pytest.mark.parametrize("is_integrity_lost", [False, True])
def test_swapped_directories_of_two_topics_are_refused_and_named(is_integrity_lost: bool) -> None:
    disk = two_topics()
    for name in IDS if is_integrity_lost else ():
        disk.remove(join(DIRECTORY, f"{name}-0", INTEGRITY))
    swap(disk)
    file = PARTITION_METADATA if is_integrity_lost else INTEGRITY
    reason = "is the id of topic u" if is_integrity_lost else "is the log of u-0"
    with pytest.raises(CorruptionError, match=f"t-0/{file} .*this {reason}"):
        found(disk, "t")
    assert wrong_directories(disk) == [join(DIRECTORY, f"{name}-0", file) for name in IDS]
    assert not [one for one in check(disk, DIRECTORY).findings if one.entry], "no offsets of others"


def test_a_topic_that_was_made_since_under_the_same_name_is_read() -> None:
    disk = two_topics()
    disk.remove(join(DIRECTORY, "t-0", INTEGRITY))
    another = TopicRecord(name="t", topic_id=Uuid(bytes(15) + b"x"))
    write_records(disk, RemoveTopicRecord(topic_id=IDS["t"]), another, directory=DIRECTORY)
    assert found(disk, "t") == [b"t"]


def test_a_damaged_metadata_log_says_nothing_of_records() -> None:
    disk = two_topics()
    disk.remove(join(DIRECTORY, "t-0", INTEGRITY))
    path = segment(DIRECTORY)
    file = disk.open(path, writable=True)
    file.pwrite(b"x" * len(read_file(disk, path)), 0)
    file.close()
    assert found(disk, "t") == [b"t"]
