"""A node of the quorum crashes at every call: what it has told others is there afterwards."""

from typing import NamedTuple

import pytest

from ottla.base.files import FileSystem
from ottla.broker.metadata.quorum_log import SegmentLimits
from ottla.metadata.log_writing import snapshot_parts
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import lineage_of
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import NO_VOTERS, ReplicaKey
from ottla.record.batch import iter_batches
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash_points import CrashPoint, every_crash_point
from tests.support.brokers import disk
from tests.support.quorum_logs import QuorumDirectory, batch_of

pytestmark = pytest.mark.slow

LIMITS = SegmentLimits(size=200)


class Promise(NamedTuple):
    """What others may rely on: the epoch of each offset that is durable, and so on."""

    election: ElectionState = ElectionState()
    start: int = 0
    epochs: tuple[int, ...] = ()
    """Of the records from `start` on."""
    snapshots: tuple[SnapshotId, ...] = ()


class Writer:
    """A node, whose promises are noted."""

    def __init__(self, files: FileSystem, promises: list[Promise]) -> None:
        self.used = QuorumDirectory(files, limits=LIMITS)
        self.log = self.used.log
        self.promises = promises
        self.now = Promise()

    def promise(self, **changes: object) -> None:
        self.now = self.now._replace(**changes)
        self.promises.append(self.now)

    def elect(self, epoch: int, voted: int | None = None) -> None:
        election = ElectionState(epoch, None, None if voted is None else ReplicaKey(voted))
        self.used.opened.elections.write(election, 0, NO_VOTERS)
        self.promise(election=election)

    def append(self, count: int, *, is_synced: bool = True) -> None:
        epoch = self.now.election.epoch
        for _ in range(count):
            self.log.append(batch_of(self.log.log_end_offset, epoch))
        if is_synced:
            self.log.sync()
            known = [*self.now.epochs, *[epoch] * 99]
            self.promise(epochs=tuple(known[: self.log.log_end_offset - self.now.start]))

    def truncate_to(self, offset: int) -> None:
        """A promise about what is cut off does not hold any more."""
        self.promise(epochs=self.now.epochs[: offset - self.now.start])
        self.log.truncate_to(offset)

    def snapshot(self, snapshot: SnapshotId) -> None:
        content = b"".join(snapshot_parts([], epoch=snapshot.epoch, now_ms=0))
        self.log.write_snapshot(snapshot, 0, content[:50])
        self.log.write_snapshot(snapshot, 50, content[50:])
        self.log.finish_snapshot(snapshot)
        self.promise(snapshots=(*self.now.snapshots, snapshot))

    def delete_before(self, snapshot: SnapshotId) -> None:
        start = snapshot.end_offset
        kept = tuple(one for one in self.now.snapshots if one >= snapshot)
        epochs = self.now.epochs[start - self.now.start :]
        self.promise(start=start, snapshots=kept, epochs=epochs)
        self.log.delete_records_before(start)
        self.log.delete_snapshots_before(snapshot)

    def start_at(self, snapshot: SnapshotId) -> None:
        self.promise(start=snapshot.end_offset, snapshots=(snapshot,), epochs=())
        self.log.start_at(snapshot.end_offset)
        self.log.delete_snapshots_before(snapshot)


def workload(files: FileSystem, promises: list[Promise]) -> None:
    node = Writer(files, promises)
    node.elect(1, voted=1)
    node.append(4)
    node.append(2, is_synced=False)
    node.elect(2)
    node.truncate_to(4)
    node.append(2)
    node.snapshot(SnapshotId(3, 1))
    node.append(2)
    node.snapshot(SnapshotId(6, 2))
    node.delete_before(SnapshotId(6, 2))
    node.elect(3, voted=2)
    node.truncate_to(7)
    node.append(1)
    node.snapshot(SnapshotId(20, 3))
    node.start_at(SnapshotId(20, 3))
    node.append(3)
    node.used.close()


def check(point: CrashPoint) -> FakeFileSystem:
    """Opens what is left as a node does; returns the disk after a step more and a power failure."""
    promises: list[Promise] = point.acknowledged
    promised = promises[-1] if promises else Promise()
    used = QuorumDirectory(point.file_system, limits=LIMITS)
    log, election = used.log, used.opened.election
    if election is None:  # power failed before the file was written first
        assert not promises
    else:
        assert election.epoch >= promised.election.epoch
        assert election == promised.election or election.epoch > promised.election.epoch
    lineage = lineage_of(log)
    latest = lineage.latest_snapshot
    if latest is not None and not lineage.reaches(latest):
        log.start_at(latest.end_offset)
    assert set(promised.snapshots) <= set(log.snapshots) or log.log_start_offset > promised.start
    found: dict[int, int] = {}
    offset = log.log_start_offset
    while content := log.read(offset, 1000):
        for batch in iter_batches(content):
            batch.check()
            assert batch.base_offset == offset
            found[offset] = batch.partition_leader_epoch
            offset = batch.next_offset
    assert offset == log.log_end_offset
    is_later = latest is not None and latest.end_offset > promised.start + len(promised.epochs)
    for place, epoch in enumerate(promised.epochs, promised.start):
        assert is_later or found[place] == epoch, place
    used.opened.elections.write(ElectionState(9), 0, NO_VOTERS)
    log.append(batch_of(log.log_end_offset, 9))
    log.sync()
    return point.file_system.crash(CrashMode.STRICT)


def test_what_was_told_is_there_after_a_crash_at_any_call() -> None:
    count = 0
    for point in every_crash_point(
        workload, make_file_system=lambda: disk("/d"), seeds=1, share=0.3
    ):
        count += 1
        try:
            end = QuorumDirectory(check(point), limits=LIMITS).log.log_end_offset
        except Exception as error:
            raise AssertionError(f"{point}") from error
        assert end > 0
    assert count > 100
