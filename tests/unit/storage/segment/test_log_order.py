"""Batches that do not begin where the one before them ends."""

import pytest

from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.log_file import LogFile
from ottla.storage.segment.log_order import (
    OffsetOverflowError,
    damaged_offset,
    is_flipped_offset,
    warn_of_gap,
)
from ottla.testing import FakeFileSystem

FAR = 10**6


def stored(*offsets: int) -> bytes:
    content = b""
    for offset in offsets:
        builder = RecordBatchBuilder(offset)
        for _ in range(3):
            builder.append(None, b"v", 0)
        content += builder.build()
    return content


def is_first_misplaced(due_offset: int, *offsets: int, limit: int = FAR) -> bool:
    view = memoryview(stored(*offsets))
    return damaged_offset(RecordBatch(view, 0), due_offset, limit, view) is not None


def test_a_batch_that_begins_before_the_offset_due_is_misplaced() -> None:
    assert is_first_misplaced(12, 10, 15)


def test_a_gap_before_batches_that_go_on_after_it_is_a_gap() -> None:
    assert not is_first_misplaced(5, 10, 13)
    assert not is_first_misplaced(5, 10)


@pytest.mark.parametrize("following", [8, 10, 12])
def test_a_batch_that_reaches_into_the_next_is_misplaced(following: int) -> None:
    assert is_first_misplaced(8, 10, following)


def test_a_batch_that_reaches_into_the_next_segment_is_misplaced() -> None:
    assert is_first_misplaced(5, 10, limit=12)
    assert not is_first_misplaced(5, 10, limit=13)


def test_one_bit_of_an_offset_is_a_flip_and_two_are_none() -> None:
    batch = RecordBatch(stored(0b1010))
    assert is_flipped_offset(batch, 0b1000)
    assert not is_flipped_offset(batch, 0b1010)
    assert not is_flipped_offset(batch, 0b1001)


@pytest.fixture
def log() -> LogFile:
    return LogFile.open(FakeFileSystem(), "0.log", create=True)


def test_an_offset_too_far_for_an_index_is_named_with_its_place(log: LogFile) -> None:
    error = OffsetOverflowError(log, 7, 90, 2**31 + 8)
    assert (error.path, error.position, error.base_offset, error.log) == ("0.log", 90, 7, log)
    assert "offset 2147483656 is too far" in str(error)


def test_a_gap_before_the_last_batch_is_named(
    log: LogFile, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_gap(log, 90, 5, 9)
    assert "0.log at byte 90: offsets 5 to 8 are missing" in caplog.text
