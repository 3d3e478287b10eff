"""Marks along a segment, to share its bytes out."""

from itertools import pairwise

import pytest

from ottla.base.files import read_file
from ottla.record.batch import iter_batches
from ottla.storage.index.offset_index import ENTRY
from ottla.storage.reading.index_marks import index_marks
from ottla.storage.segment.partition_files import SegmentFiles, list_partition
from ottla.testing import FakeFileSystem
from tests.support.logs import TOPIC_ID, fill, open_directory
from tests.unit.storage.segment.test_segment_view import ROOMY

INDEX = "data/t-0/00000000000000000000.index"


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk, ROOMY)
    fill(directory.create_log("t", 0, TOPIC_ID), 40)
    directory.close()
    return disk


def segment(disk: FakeFileSystem) -> SegmentFiles:
    return list_partition(disk, "data/t-0").segments[0]


def test_marks_ascend_and_lie_about_evenly_apart(disk: FakeFileSystem) -> None:
    marks = index_marks(disk, segment(disk), 4)
    assert len(marks) == 4
    positions = [position for _, position in marks]
    assert positions == sorted(set(positions))
    spans = [later - one for one, later in pairwise(positions)]
    assert max(spans) < 2 * min(spans)
    batches = iter_batches(read_file(disk, segment(disk).log_path))
    held = {one.position: one for one in batches}
    assert all(held[at].base_offset <= offset <= held[at].last_offset for offset, at in marks)


def test_there_are_no_more_than_the_index_has(disk: FakeFileSystem) -> None:
    marks = index_marks(disk, segment(disk), 10**6)
    status = disk.status(INDEX)
    assert status is not None
    assert len(marks) == status.size // ENTRY.size


def test_an_index_that_is_gone_or_torn_has_none(disk: FakeFileSystem) -> None:
    disk.open(INDEX, writable=True).truncate(ENTRY.size + 3)
    assert index_marks(disk, segment(disk), 4) == []
    disk.remove(INDEX)
    assert index_marks(disk, segment(disk), 4) == []


def test_what_cannot_be_in_the_log_is_no_mark(disk: FakeFileSystem) -> None:
    listed = segment(disk)
    sound = index_marks(disk, listed, 10**6)
    disk.open(INDEX, writable=True).pwrite(ENTRY.pack(2, listed.size + 1), ENTRY.size)
    assert index_marks(disk, listed, 10**6) == [sound[0], *sound[2:]]
