"""Headers that contradict their neighbours or the epochs are not read past."""

from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.log.header_check import EpochRanges, HeaderCheck, Place, checked_end, places
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.segment import Segment
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, fill, open_log

ROOMY = replace(SMALL, segment_bytes=1 << 20)
COUNT = 5
"""Batches, of two records each."""


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    """As a process finds it that has not written it."""
    log = open_log(disk, ROOMY)
    fill(log, COUNT)
    found_before(log)
    return log


def found_before(log: PartitionLog) -> None:
    log.segments.first.forget_checks(log.segments.first.size)


def position_of(log: PartitionLog, number: int) -> int:
    return [one.position for one in places(log.segments.first.log, 0)][number]


def stamp(log: PartitionLog, disk: FakeFileSystem, number: int, base_offset: int) -> int:
    """Changes what the header of a batch says, which no checksum covers."""
    position = position_of(log, number)
    file = disk.open(log.segments.first.log.path, writable=True)
    file.pwrite(base_offset.to_bytes(8), position)
    file.close()
    return position


def header_check(log: PartitionLog) -> HeaderCheck:
    return HeaderCheck(log.segments, log.epochs, log.offsets)


def test_what_is_sound_is_compared_once(log: PartitionLog) -> None:
    segment = log.segments.first
    whole = segment.log.slice(0, segment.size)
    assert header_check(log).sound_part(whole, segment, 0) == whole
    assert segment.unchecked_size == 0


def test_a_read_ends_before_a_header_that_cannot_be(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    position = stamp(log, disk, 3, 1)
    segment = log.segments.first
    found = header_check(log).sound_part(segment.log.slice(0, segment.size), segment, 0)
    assert found is not None
    assert found.position == 0
    assert found.size <= position


def test_a_read_that_begins_with_such_a_header_is_refused_again_and_again(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    position = stamp(log, disk, 3, 1)
    segment = log.segments.first
    for _ in range(2):
        with pytest.raises(CorruptionError, match="out of place"):
            header_check(log).check(segment, 6, position, segment.size)


def test_what_this_process_has_written_is_not_looked_at(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    segment = log.segments.first
    segment.forget_checks(0)
    stamp(log, disk, 3, 1)
    whole = segment.log.slice(0, segment.size)
    assert header_check(log).sound_part(whole, segment, 0) is whole


def test_the_end_that_a_clean_stop_has_recorded_is_compared(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    log.segments.first.sync()

    def end(known_end: int | None) -> int:
        found = Segment(disk, log.directory, 0, config=ROOMY, created_ms=NOW_MS)
        return checked_end(found, known_end)

    assert end(None) == end(2 * COUNT) == 2 * COUNT
    stamp(log, disk, COUNT - 1, 2 * COUNT + 30)
    with pytest.raises(CorruptionError, match=f"the log ended at offset {2 * COUNT}"):
        end(2 * COUNT)


def test_epochs_of_batches_are_those_of_their_offsets(disk: FakeFileSystem) -> None:
    disk.make_directory("data")
    entries = [EpochEntry(epoch=1, start_offset=4), EpochEntry(epoch=3, start_offset=8)]
    ranges = EpochRanges(LeaderEpochs(disk, "data/leader-epoch-checkpoint", entries))

    def agree(first: int, last: int, epoch: int) -> bool:
        place = Place(0, 100, first, last, epoch)
        return ranges.agree(place)

    assert agree(0, 3, 7), "nothing is known of what lies before the first entry"
    assert agree(2, 5, 1), "a log may start in the middle of a batch"
    assert agree(4, 7, 1)
    assert not agree(4, 7, 2)
    assert agree(8, 100, 3)
    assert not agree(6, 9, 3), "a batch lies within one epoch"
    assert EpochRanges(None).agree(Place(0, 100, 0, 3, 9))
