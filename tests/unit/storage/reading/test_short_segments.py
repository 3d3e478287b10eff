"""Short segments that are read at once: only those in which nothing is unusual."""

from dataclasses import replace

import pytest

from ottla.storage.files.integrity import SegmentFacts
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading import short_segments
from ottla.storage.reading.listed_segments import Cursor
from ottla.storage.reading.short_segments import ShortSegments
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.reading_logs import reading, values_of


def short(disk: FakeFileSystem) -> ShortSegments:
    return ShortSegments(reading(disk).batches._facts)


def bases(disk: FakeFileSystem) -> list[int]:
    return [one.base_offset for one in reading(disk).segments]


def test_every_segment_but_the_last_is_read_whole(disk: FakeFileSystem, log: PartitionLog) -> None:
    cursor = Cursor(0)
    found = list(short(disk).regions(cursor, 20))
    assert [one.path for one in found] == [one.log_path for one in reading(disk).segments[:-1]]
    assert [bytes(one.data) for one in found] == [
        disk.open(one.path).pread(1000, 0) for one in found
    ]
    assert cursor.offset == found[-1].next_offset == bases(disk)[-1]
    assert values_of(reading(disk), 0) == list(range(20))


def test_no_segment_is_read_from_its_middle_or_beyond_the_end(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    second, third = bases(disk)[1:3]
    assert not list(short(disk).regions(Cursor(1), 20))
    assert not list(short(disk).regions(Cursor(second), third - 1))
    assert len(list(short(disk).regions(Cursor(second), third))) == 1


def cut(disk: FakeFileSystem, path: str) -> None:
    file = disk.open(path, writable=True)
    file.truncate(file.size() - 1)


CHANGES = {
    "a file that is cut": cut,
    "a file that is gone": lambda disk, path: disk.remove(path),
    "another offset": lambda disk, path: disk.open(path, writable=True).pwrite(b"\1", 7),
    "another checksum": lambda disk, path: disk.open(path, writable=True).pwrite(b"\1\1", 17),
    "an old format": lambda disk, path: disk.open(path, writable=True).pwrite(b"\1", 16),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_unusual_segment_is_left_to_its_reader(
    disk: FakeFileSystem, log: PartitionLog, change: str
) -> None:
    listed, second = short(disk), reading(disk).segments[1]
    CHANGES[change](disk, second.log_path)
    cursor = Cursor(0)
    assert len(list(listed.regions(cursor, 20))) == 1
    assert cursor.offset == second.base_offset


def test_a_long_segment_and_one_of_another_log_are_left_to_their_reader(
    disk: FakeFileSystem, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = reading(disk).batches._facts
    assert facts.integrity is not None
    facts.integrity = replace(facts.integrity, segments={0: SegmentFacts(first_checksum=1)})
    assert not list(ShortSegments(facts).regions(Cursor(0), 20))
    monkeypatch.setattr(short_segments, "WHOLE_SIZE", 10)
    assert not list(short(disk).regions(Cursor(0), 20))


def test_headers_end_before_a_segment_with_a_control_batch(
    disk: FakeFileSystem, transactions: Transactions
) -> None:
    marker = next(one for one in reading(disk).batches.headers(0, 12) if one.is_control)
    holder = max(base for base in bases(disk) if base <= marker.base_offset)
    assert holder > 0
    headers = short(disk).headers(Cursor(0), 12)
    assert [one.base_offset for one in headers] == list(range(holder))
