"""A log directory that is cut off at every single call it makes to its disk, and opened again.

Each workload is run once for every call and every kind of crash; what is left is recovered and held
against what the workload had been promised. A failure prints the `CrashPoint`, which is all that
it takes to have it again: `disk.crash(mode, seed)` after that call.
"""

import time
from collections.abc import Iterator

import pytest

from ottla.base.files import join
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import BOOT_NOTE, CLEAN_SHUTDOWN, INTEGRITY
from ottla.testing import CrashMode, CrashPoint, FakeFileSystem, every_crash_point
from tests.crash.cases import CASES, Case
from tests.crash.checking import (
    all_files,
    check_consistency,
    check_goes_on,
    check_no_segment_counts_as_cut,
    check_nothing_counts_as_lost,
    check_promise,
    remove_derived_files,
    reopened,
    stored_batches,
)
from tests.crash.expected import Expected
from tests.crash.history import promise_of
from tests.crash.sampling import sample
from tests.support.logs import DIRECTORY

CLEAN_MARK = join(DIRECTORY, CLEAN_SHUTDOWN)


def check(point: CrashPoint, config: TopicConfig) -> None:
    """Recovers what a crash left, and compares it with everything that was promised."""
    promise = promise_of(point.acknowledged)
    disk = point.file_system
    was_clean = CLEAN_MARK in all_files(disk)
    may_be_new = not promise.is_created or promise.restart is not None
    check_nothing_counts_as_lost(disk, promise.wanted_start)
    log = reopened(disk, config, may_be_new=may_be_new)
    required = promise.written_end if point.mode is CrashMode.KEEP else promise.flushed_end
    expected = check_promise(log, promise, required)
    check_consistency(log, expected)
    check_nothing_counts_as_lost(disk, log.log_start_offset)
    check_no_segment_counts_as_cut(log)
    found = stored_batches(log)
    if not was_clean:
        # After a clean stop the first start has more to go by than the second, which recovers: the
        # stop's snapshot knows producers whose records are all deleted.
        check_a_second_recovery_changes_nothing(disk.crash(CrashMode.KEEP), config)

    check_a_rebuild_finds_the_same(disk.crash(CrashMode.KEEP), found, expected, config)
    check_goes_on_from(disk.crash(CrashMode.RANDOM, point.seed), config)


def check_a_rebuild_finds_the_same(
    disk: FakeFileSystem, found: list[bytes], expected: Expected, config: TopicConfig
) -> None:
    remove_derived_files(disk)
    log = reopened(disk, config)
    assert stored_batches(log) == found
    check_consistency(log, expected)


def check_a_second_recovery_changes_nothing(disk: FakeFileSystem, config: TopicConfig) -> None:
    files = kafkas_files(disk)
    reopened(disk, config)
    assert kafkas_files(disk.crash(CrashMode.KEEP)) == files


def kafkas_files(disk: FakeFileSystem) -> dict[str, bytes]:
    """All but the integrity file, which may say more after each start, and the note of the boot."""
    return {
        path: data
        for path, data in all_files(disk).items()
        if not path.endswith((INTEGRITY, BOOT_NOTE))
    }


def check_goes_on_from(disk: FakeFileSystem, config: TopicConfig) -> None:
    """What is flushed after a recovery outlives the next power failure."""
    durable = check_goes_on(disk, config)
    log = reopened(disk.crash(CrashMode.STRICT), config)
    assert stored_batches(log) == durable
    check_no_segment_counts_as_cut(log)


def check_all(points: Iterator[CrashPoint], config: TopicConfig) -> None:
    for point in points:
        try:
            check(point, config)
        except Exception as error:
            error.add_note(f"at {point}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_log_keeps_its_promises_at_every_crash_point(case: Case, crash_seconds: float) -> None:
    points = every_crash_point(case, seeds=1, share=1 / 3)
    check_all(sample(points, crash_seconds), case.config)
    until = time.monotonic() + crash_seconds
    while time.monotonic() < until:
        check_all(every_crash_point(case, first_seed=time.time_ns()), case.config)
