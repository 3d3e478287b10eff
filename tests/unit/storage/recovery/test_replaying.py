"""After an unclean stop segments are checked batch by batch, and what follows damage is dropped."""

from typing import Any

import pytest

from ottla.storage.recovery.opened_log import OpenedLog
from ottla.storage.recovery.opening import open_segments
from ottla.storage.recovery.replaying import recover_segment, recover_segments
from ottla.testing import FakeFileSystem
from tests.support.recovering import COUNT, damage, killed, live, opened


@pytest.fixture
def disk() -> FakeFileSystem:
    return killed()


def recovered(disk: FakeFileSystem, **known: Any) -> OpenedLog:
    log = opened(disk, **known)
    open_segments(log)
    recover_segments(log)
    return log


def end_of(log: OpenedLog) -> int:
    return log.segments.active.next_offset()


def test_a_sound_log_stays_as_it_is(disk: FakeFileSystem) -> None:
    before = {path: disk.status(path) for path in live(disk, ".log")}
    log = recovered(disk)
    assert {path: disk.status(path) for path in live(disk, ".log")} == before
    assert end_of(log) == COUNT
    assert log.epochs.latest_epoch == 1


def test_a_torn_tail_is_cut_off(disk: FakeFileSystem) -> None:
    path = live(disk, ".log")[-1]
    file = disk.open(path, writable=True)
    file.truncate(file.size() - 1)
    file.close()
    log = recovered(disk)
    assert end_of(log) == COUNT - 1
    assert log.segments.active.log.path == path


def test_segments_after_damage_that_was_not_flushed_are_dropped(disk: FakeFileSystem) -> None:
    first, second, *_ = live(disk, ".log")
    damage(disk, second, -1)
    log = recovered(disk)
    assert live(disk, ".log") == [first, second]
    assert end_of(log) < COUNT


def test_damage_that_was_flushed_stays_and_so_does_what_follows(disk: FakeFileSystem) -> None:
    paths = live(disk, ".log")
    before = [disk.status(path) for path in paths]
    damage(disk, paths[1], -1)
    log = opened(disk, recovery_point=COUNT)
    open_segments(log)
    segment = log.segments.values[1]
    recover_segment(log, segment, after=log.segments.values[2:])
    after = [disk.status(path) for path in paths]
    assert [one and one.size for one in after] == [one and one.size for one in before]


def test_what_follows_a_hole_is_dropped(disk: FakeFileSystem) -> None:
    """A power failure took the end of a segment, at the end of a batch, and kept the next."""
    log = opened(disk, was_clean_stop=True)
    open_segments(log)
    first = log.segments.values[0]
    size = first.size
    log.forget_segments()
    path = live(disk, ".log")[0]
    file = disk.open(path, writable=True)
    content = file.pread(size, 0)
    last = content.rfind((log.base_offsets[1] - 1).to_bytes(8, "big"))
    file.truncate(last)
    file.close()
    after = recovered(disk)
    assert live(disk, ".log") == [path]
    assert end_of(after) == log.base_offsets[1] - 1


def test_after_a_clean_stop_nothing_is_read(disk: FakeFileSystem) -> None:
    path = live(disk, ".log")[-1]
    damage(disk, path, -1)
    before = disk.status(path)
    recovered(disk, was_clean_stop=True, recovery_point=COUNT)
    assert disk.status(path) == before


def test_each_segment_that_is_looked_through_is_reported(disk: FakeFileSystem) -> None:
    steps: list[tuple[str, int]] = []
    recovered(disk, on_progress=lambda path, left: steps.append((path, left)))
    paths = live(disk, ".log")
    assert steps == [(path, len(paths) - n) for n, path in enumerate(paths)]


def test_the_producers_at_a_segments_end_are_written_down(disk: FakeFileSystem) -> None:
    for path in live(disk, ".snapshot"):
        disk.remove(path)
    log = recovered(disk)
    offsets = log.snapshot_files().offsets
    assert set(log.base_offsets[1:]) <= set(offsets)
    assert offsets[-1] == COUNT
