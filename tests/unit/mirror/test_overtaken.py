"""Mirrors of a directory whose retention overtakes them: between any two calls, or all the time."""

import pytest

from ottla.mirror.mirror import RoundReport
from ottla.record.record import Record
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from ottla.testing.crash import CrashMode
from tests.support.mirroring import (
    SOURCE,
    TARGET,
    mirror_once,
    mirror_round,
    target_disk,
    target_on,
    verified,
)
from tests.support.overtaken import OvertakingFileSystem, filled_disk, overtaken

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def disk() -> FakeFileSystem:
    return filled_disk()


def records(disk: FakeFileSystem, path: str) -> dict[int, Record]:
    log = open_for_reading(path, disk).partition("t", 0)
    return {one.offset: one for one in log.records.read(log.log_start_offset)}


def half_mirrored(disk: FakeFileSystem) -> FakeFileSystem:
    """A target that has what the source had long ago."""
    from tests.support.mirroring import SourceLog

    target, young = target_disk(), SourceLog()
    young.create()
    young.append(b"in", b"in", producer=7)
    mirror_once(young.files, target)
    return target


def test_a_mirror_that_allows_gaps_has_all_that_it_could_have(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    whole = records(disk.crash(CrashMode.KEEP), SOURCE)
    begun = half_mirrored(disk)

    def read(files: OvertakingFileSystem) -> None:
        target = begun.crash(CrashMode.KEEP)
        report = mirror_once(files, target, allow_gaps=True, with_groups=False)
        assert report.refusals == {}
        copied = records(target, TARGET)
        assert copied.items() <= whole.items()
        gaps = {
            offset
            for one in report.partitions
            for gap in one.gaps
            for offset in range(gap.from_offset, gap.until_offset)
        }
        assert max(copied) == max(whole)
        assert all(offset in copied for offset in whole if offset > max(gaps, default=-1))

    overtaken(disk, read, crash_seconds)


def test_a_mirror_that_allows_none_says_what_was_removed(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    begun, said = half_mirrored(disk), set()

    def read(files: OvertakingFileSystem) -> None:
        target = begun.crash(CrashMode.KEEP)
        report: RoundReport
        with target_on(target) as opened:
            report = mirror_round(files, opened, with_groups=False)
        for text in report.refusals.values():
            assert "were removed from the source before they were copied; --allow-gaps" in text
            said.add(text)
        if not report.refusals:
            assert max(records(target, TARGET)) == max(records(files.inner, SOURCE))

    overtaken(disk, read, crash_seconds)
    assert said


def test_what_is_deleted_while_it_is_verified_is_no_difference(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    target = target_disk()
    mirror_once(disk.crash(CrashMode.KEEP), target)
    target = target.crash(CrashMode.KEEP)

    def read(files: OvertakingFileSystem) -> None:
        assert verified(files, target, allow_lag=True, with_groups=False).differences == []

    overtaken(disk, read, crash_seconds)
