"""The quorum's log on disk does what effects want of it, and has it when it is opened again."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.files import read_file
from ottla.broker.metadata.quorum_log import SegmentLimits, snapshot_name
from ottla.metadata.log_writing import snapshot_parts
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import lineage_of
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.record.batch import iter_batches
from ottla.testing import CrashMode
from tests.simulation.quorum_disk import MemoryDirectory
from tests.support.brokers import disk
from tests.support.quorum_logs import QuorumDirectory, batch_of

FOLDER = "/d/__cluster_metadata-0"
SMALL = SegmentLimits(size=300)
VOTERS = VoterSet.of([Voter(ReplicaKey(1)), Voter(ReplicaKey(2))])


def snapshot_of(snapshot: SnapshotId) -> bytes:
    parts = snapshot_parts([], epoch=snapshot.epoch, now_ms=0)
    return b"".join(parts)


class Model:
    """A log on a disk, beside one in memory that does the same."""

    def __init__(self) -> None:
        self.files = disk("/d")
        self.memory = MemoryDirectory()
        self.used = QuorumDirectory(self.files, limits=SMALL)
        self.epoch = 1

    def do(self, step: str, chance: Random) -> None:
        log, memory = self.used.log, self.memory
        snapshots = memory.snapshots
        match step:
            case "append":
                self.epoch += chance.randrange(2)
                values = [bytes(chance.randrange(120)) for _ in range(chance.randint(1, 3))]
                self.used.opened.elections.write(ElectionState(self.epoch), 0, VOTERS)
                records = batch_of(memory.log_end_offset, self.epoch, *values)
                log.append(records)
                memory.append(records)
            case "sync":
                log.sync()
            case "truncate":
                entries = memory.content.entries
                kept = max([one.end_offset for one in snapshots], default=0)
                ends = [one.base_offset for one in entries if one.base_offset >= kept]
                if ends:
                    offset = chance.choice(ends)
                    log.truncate_to(offset)
                    memory.truncate_to(offset)
            case "snapshot":
                at = [one for one in memory.content.entries if one.next_offset > 0]
                if at:
                    one = chance.choice(at)
                    self._snapshot(SnapshotId(one.next_offset, one.epoch))
            case "fetch":
                self.epoch += 1
                fetched = SnapshotId(memory.log_end_offset + chance.randint(1, 9), self.epoch)
                self._snapshot(fetched)
                for one in (log, memory):
                    one.start_at(fetched.end_offset)
                    one.delete_snapshots_before(fetched)
            case "delete":
                if snapshots:
                    kept_from = chance.choice(snapshots)
                    for one in (log, memory):
                        one.delete_records_before(kept_from.end_offset)
                        one.delete_snapshots_before(kept_from)
            case "restart":
                self.used.close()
                self.used = QuorumDirectory(self.files, limits=SMALL)
            case "kill":
                self.files = self.files.crash(CrashMode.KEEP)
                self.used = QuorumDirectory(self.files, limits=SMALL)

    def _snapshot(self, snapshot: SnapshotId) -> None:
        if snapshot in self.memory.snapshots:
            return
        content = snapshot_of(snapshot)
        for log in (self.used.log, self.memory):
            for position in range(0, len(content), 64):
                log.write_snapshot(snapshot, position, content[position : position + 64])
            log.finish_snapshot(snapshot)

    def check(self) -> None:
        log, memory = self.used.log, self.memory
        assert log.log_end_offset == memory.log_end_offset
        assert list(log.snapshots) == sorted(memory.snapshots)
        # A start begins with the segment that holds the records after a snapshot.
        assert log.log_start_offset <= memory.log_start_offset
        offset, found = memory.log_start_offset, b""
        while part := log.read(offset, 200):
            found += part
            offset = list(iter_batches(part))[-1].next_offset
        assert found == b"".join(one.content for one in memory.content.entries)
        ours, theirs = lineage_of(log), lineage_of(memory)
        assert ours.end == theirs.end
        for one in memory.content.entries:
            assert ours.epoch_at(one.base_offset) == one.epoch
        for snapshot in memory.snapshots:
            assert bytes(log.read_snapshot(snapshot, 5, 9)) == snapshot_of(snapshot)[5:14]
            assert log.snapshot_size(snapshot) == len(snapshot_of(snapshot))


STEPS = ("append", "append", "append", "sync", "truncate", "snapshot", "fetch", "delete",
         "restart", "kill")  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25), st.integers(0, 1 << 30))
def test_a_log_on_disk_is_what_a_log_in_memory_is(steps: list[str], seed: int) -> None:
    model, chance = Model(), Random(seed)
    for step in steps:
        model.do(step, chance)
        model.check()
    model.do("kill", chance)
    model.check()


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_power_failure_leaves_what_was_synced(is_synced: bool) -> None:
    files = disk("/d")
    used = QuorumDirectory(files)
    used.opened.elections.write(ElectionState(1), 0, VOTERS)
    log = used.log
    log.append(batch_of(0, 1, b"a"))
    log.sync()
    log.append(batch_of(1, 1, b"b"))
    if is_synced:
        log.sync()
    left = QuorumDirectory(files.crash(CrashMode.STRICT)).log
    assert left.log_end_offset == 1 + is_synced


def test_a_directory_that_was_never_used_may_vote() -> None:
    files = disk("/d")
    used = QuorumDirectory(files, voters=VOTERS)
    assert used.opened.election == ElectionState()
    assert used.opened.history.voters == VOTERS
    used.close()
    assert b'"currentVoters":[{"voterId":1},{"voterId":2}]' in read_file(
        files, f"{FOLDER}/quorum-state"
    )


def test_the_state_of_elections_is_read_as_it_was_written() -> None:
    files = disk("/d")
    state = ElectionState(7, None, ReplicaKey(2))
    QuorumDirectory(files).opened.elections.write(state, 0, VOTERS)
    assert QuorumDirectory(files.crash(CrashMode.STRICT)).opened.election == state


def test_who_has_lost_the_state_of_elections_is_told_so() -> None:
    files = disk("/d")
    used = QuorumDirectory(files)
    used.log.append(batch_of(0, 1))
    used.close()
    files.remove(f"{FOLDER}/quorum-state")
    assert QuorumDirectory(files).opened.election is None
    assert files.status(f"{FOLDER}/quorum-state") is None, "a guess is not written"


def test_an_unfinished_snapshot_is_no_snapshot() -> None:
    files = disk("/d")
    snapshot = SnapshotId(3, 1)
    QuorumDirectory(files).log.write_snapshot(snapshot, 0, snapshot_of(snapshot))
    log = QuorumDirectory(files.crash(CrashMode.KEEP)).log
    assert not log.snapshots
    log.write_snapshot(snapshot, 0, snapshot_of(snapshot))
    log.finish_snapshot(snapshot)
    assert list(log.snapshots) == [snapshot]
    assert snapshot_name(snapshot) == "00000000000000000003-0000000001.checkpoint"
