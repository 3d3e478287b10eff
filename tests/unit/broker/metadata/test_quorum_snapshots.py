"""Snapshots of a running quorum's log: made when they are due, whole, and cleaned up."""

from typing import Any

import pytest

from ottla.base.errors import ShortageError
from ottla.base.files import FileSystem
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import PART
from ottla.broker.metadata.quorum_snapshots import PAUSE_MS
from ottla.quorum.log import take_history
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import NO_VOTERS, VoterHistory
from ottla.testing import CrashMode
from ottla.testing.crash_points import every_crash_point
from tests.support.brokers import disk
from tests.support.quorum_logs import VOTERS, QuorumDirectory, SnapshotNode, batch_of
from tests.support.shortages import ScarceFileSystem


def test_a_snapshot_is_due_after_some_bytes_and_after_some_time() -> None:
    node = SnapshotNode(disk("/d"))
    assert not node.is_due
    node.commit(1)
    assert not node.is_due
    node.commit(2)
    assert node.is_due
    work = node.begin()
    node.commit(3)
    node.commit(4)
    assert not node.is_due, "one is being made"
    work.carry_out()
    assert node.snapshots.ended(work)
    assert node.is_due
    node.make()
    node.now_ms += 60_000
    assert not node.is_due, "nothing has changed"
    node.commit(5)
    assert node.is_due


def test_what_was_appended_before_a_start_counts() -> None:
    files = disk("/d")
    node = SnapshotNode(files)
    node.commit(1)
    node.make()
    node.commit(2)
    node.commit(3)
    node.used.close()
    assert SnapshotNode(files.crash(CrashMode.KEEP)).is_due


def test_a_snapshot_has_the_image_and_the_voters() -> None:
    files = disk("/d")
    node = SnapshotNode(files)
    for number in range(3):
        node.commit(number, count=700)
    before, work = node.image, node.begin()
    steps = work.steps()
    for _ in range(10):
        next(steps)
    assert not node.log.snapshots, "it is not finished"
    node.commit(9)
    assert sum(1 for _ in steps) > 10, "each is short"
    assert node.snapshots.ended(work)
    assert work.id == SnapshotId(before.end_offset, 3)
    node.log.delete_records_before(work.id.end_offset)
    assert node.image.configs[32].keys() == {"t0", "t1", "t2", "t9"}
    again = QuorumDirectory(files.crash(CrashMode.STRICT))
    assert again.opened.history.voters == VOTERS
    history = VoterHistory(0, NO_VOTERS)
    take_history(again.log, history)
    assert history.at(work.id.end_offset) == (1, VOTERS)


def test_a_snapshot_of_a_static_quorum_names_no_voters() -> None:
    files = disk("/d")
    node = SnapshotNode(files)
    node.commit(1)
    work = node.snapshots.begin(node.image, 0, VOTERS, node.at)
    work.carry_out()
    assert QuorumDirectory(files.crash(CrashMode.KEEP)).opened.history.kraft_version == 0


def test_old_snapshots_and_records_go_when_there_is_too_much() -> None:
    files = disk("/d")
    node = SnapshotNode(files)
    for number in range(30):
        node.commit(number % 3)
        if node.is_due:
            node.make()
            node.clean()
    assert node.log.log_start_offset > 0
    assert node.log.size < 14_000
    assert len(node.log.snapshots) < 5
    assert node.image.configs[32].keys() == {"t0", "t1", "t2"}
    left = QuorumDirectory(files.crash(CrashMode.STRICT)).log
    assert left.snapshots[-1] == node.log.snapshots[-1]
    assert left.log_end_offset == node.log.log_end_offset


def test_old_snapshots_go_when_they_are_too_old() -> None:
    node = SnapshotNode(disk("/d"), SnapshotLimits(retention_ms=600_000, retention_bytes=-1))
    node.commit(1)
    first = node.make()
    node.now_ms += 400_000
    node.commit(2)
    second = node.make()
    assert node.snapshots.outdated(node.at) is None
    node.now_ms += 300_000
    assert node.snapshots.outdated(node.at) == second
    node.clean()
    assert list(node.log.snapshots) == [second]
    assert first < second
    node.now_ms += 10_000_000
    assert node.snapshots.outdated(node.at) is None, "the last one stays"


def test_a_snapshot_of_the_leader_replaces_one_that_is_being_made() -> None:
    node = SnapshotNode(disk("/d"))
    node.commit(1)
    work = node.begin()
    steps = work.steps()
    next(steps)
    fetched = SnapshotId(500, 4)
    node.log.write_snapshot(fetched, 0, batch_of(0, 4))
    node.log.finish_snapshot(fetched)
    node.log.start_at(fetched.end_offset)
    for _ in steps:
        pass
    assert not node.snapshots.ended(work)


def test_a_snapshot_without_room_leaves_nothing_and_is_due_again_after_a_pause() -> None:
    files = ScarceFileSystem(disk("/d"))
    node = SnapshotNode(files)
    node.commit(1)
    node.commit(2)
    files.full_for = PART
    assert node.is_due
    with pytest.raises(ShortageError, match="make room on the disk"):
        node.begin().carry_out()
    node.snapshots.put_off(node.at)
    assert not [one for one in files.list("/d/__cluster_metadata-0") if one.endswith(PART)]
    assert not node.is_due
    node.commit(3)
    files.full_for = None
    node.now_ms += PAUSE_MS
    assert node.is_due
    node.make()
    assert node.image.configs[32].keys() == {"t1", "t2", "t3"}


@pytest.mark.slow
def test_a_crash_at_any_call_leaves_what_was_committed() -> None:
    def workload(files: FileSystem, acknowledged: list[Any]) -> None:
        node = SnapshotNode(files, SnapshotLimits(bytes_between=900, retention_bytes=4000))
        for number in range(6):
            node.commit(number)
            acknowledged.append(number)
            if node.is_due:
                node.make()
                node.clean()
        assert node.log.log_start_offset > 0

    for point in every_crash_point(
        workload, make_file_system=lambda: disk("/d"), seeds=1, share=0.3
    ):
        left = SnapshotNode(point.file_system)
        assert len(left.image.configs.get(32, {})) >= len(point.acknowledged), point
        left.commit(99)
        assert "t99" in left.image.configs[32]
