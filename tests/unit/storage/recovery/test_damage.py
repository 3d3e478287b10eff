"""Flushed batches that are damaged are kept, and the log continues after all that it ever held."""

import pytest

from ottla.base.files import join, read_file, replace_file
from ottla.storage.files.filenames import log_file_name
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.recovery.damage import end_after_damage, keep_flushed
from ottla.storage.segment.segment import Segment
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, fill, open_log

DIRECTORY = "data/t-0"
COUNT, BATCH_OFFSETS = 5, 2


def damaged_segment(batch_number: int, count: int = COUNT) -> tuple[Segment, int]:
    """A segment of some batches with a flipped bit in one, and where that begins."""
    disk = FakeFileSystem()
    fill(open_log(disk), count)
    disk = disk.crash(CrashMode.KEEP)
    path = join(DIRECTORY, log_file_name(0))
    content = bytearray(read_file(disk, path))
    size = len(content) // count
    content[(batch_number + 1) * size - 1] ^= 1
    replace_file(disk, path, bytes(content))
    segment = Segment(disk, DIRECTORY, 0, config=SMALL, created_ms=NOW_MS)
    return segment, batch_number * size


@pytest.mark.parametrize("batch_number", range(COUNT))
def test_what_follows_the_damage_is_told_to_the_caller_and_nothing_is_cut(
    batch_number: int, caplog: pytest.LogCaptureFixture
) -> None:
    segment, position = damaged_segment(batch_number)
    size = segment.log.size
    heard: list[int] = []
    damage = Finding(
        kind=FindingKind.LOG_DAMAGE, path=segment.log.path, position=position, reason="wrong"
    )
    keep_flushed(segment, damage, lambda batch: heard.append(batch.base_offset))
    assert heard == [BATCH_OFFSETS * one for one in range(batch_number + 1, COUNT)]
    assert segment.log.size == size
    assert f"at byte {position}: wrong; the batch was flushed: it is kept" in caplog.text


@pytest.mark.parametrize(
    ("batch_number", "recovery_point", "end"),
    [
        (1, 0, 10),
        (4, 0, 8),
        (4, 10, 10),
        (0, 1 << 40, 10),
    ],
    ids=["sound batches", "the last is damaged", "it was flushed", "no such offset can be"],
)
def test_no_offset_that_was_given_is_given_again(
    batch_number: int, recovery_point: int, end: int
) -> None:
    segment, _ = damaged_segment(batch_number)
    assert end_after_damage(segment, recovery_point) == end


def test_a_log_whose_only_batch_is_damaged_continues_after_its_first_offset() -> None:
    segment, _ = damaged_segment(0, count=1)
    assert end_after_damage(segment, 0) == 1
