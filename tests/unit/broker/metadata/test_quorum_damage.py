"""A voter's log that has lost something is named in one line, and nothing is changed."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import RefusalError, StorageError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.broker.metadata.quorum_log import SegmentLimits, snapshot_name
from ottla.metadata.log_writing import snapshot_parts
from ottla.quorum.election_state import ElectionState
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import NO_VOTERS, Endpoint, ReplicaKey, Voter, VoterSet
from ottla.storage.diagnosis.repair import plan_for
from ottla.storage.diagnosis.repair_plan import ActionKind
from ottla.storage.files.filenames import REPLICAS_MARK
from ottla.storage.findings import FindingKind
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.broken_disk import BreakableFileSystem
from tests.support.brokers import disk
from tests.support.quorum_logs import QuorumDirectory, batch_of, open_only

FOLDER = "/d/__cluster_metadata-0"
SMALL = SegmentLimits(size=250)
SNAPSHOT = SnapshotId(3, 1)
STATE = ElectionState(2, None, ReplicaKey(7))
FIRST, SECOND, THIRD = (f"{FOLDER}/{base:020}.log" for base in (0, 3, 6))
CHECKPOINT = f"{FOLDER}/{snapshot_name(SNAPSHOT)}"
OWN = Voter(ReplicaKey(1), (Endpoint("C", "h", 9093),))
QUORUM_STATE = f"{FOLDER}/quorum-state"


def write_snapshot(used: QuorumDirectory, snapshot: SnapshotId) -> None:
    used.log.write_snapshot(snapshot, 0, b"".join(snapshot_parts([], epoch=1, now_ms=0)))
    used.log.finish_snapshot(snapshot)


def used_directory(files: FileSystem) -> QuorumDirectory:
    """Three segments, of two epochs, and a snapshot where the second begins."""
    used = QuorumDirectory(files, limits=SMALL)
    used.opened.elections.write(STATE, 0, NO_VOTERS)
    for offset in range(8):
        used.log.append(batch_of(offset, 1 + offset // 5, b"value"))
    used.log.sync()
    write_snapshot(used, SNAPSHOT)
    return used


def stopped() -> FakeFileSystem:
    files = disk("/d")
    used_directory(files).close()
    return files


def killed() -> FakeFileSystem:
    files = disk("/d")
    used_directory(files)
    return files.crash(CrashMode.KEEP)


def without_power() -> FakeFileSystem:
    files = disk("/d")
    used_directory(files)
    return files.crash(CrashMode.STRICT)


ENDINGS = pytest.mark.parametrize("ended", [stopped, killed, without_power])


def everything(files: FakeFileSystem) -> dict[str, bytes]:
    return {name: read_file(files, f"{FOLDER}/{name}") for name in files.list(FOLDER)}


def refused(files: FakeFileSystem) -> str:
    """The line that says why the directory is not opened; all files stay."""
    before = everything(files)
    with pytest.raises(RefusalError) as error:
        QuorumDirectory(files, limits=SMALL)
    assert everything(files) == before
    line = str(error.value)
    assert "\n" not in line
    return line


def flip(files: FakeFileSystem, path: str, bit: int) -> None:
    content = bytearray(read_file(files, path))
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    replace_file(files, path, content)


@ENDINGS
def test_what_is_sound_is_opened(ended: Callable[[], FakeFileSystem]) -> None:
    opened = QuorumDirectory(ended(), limits=SMALL).opened
    assert opened.log.log_end_offset == 8
    assert opened.election == STATE._replace(voted=ReplicaKey(7))
    assert list(opened.log.snapshots) == [SNAPSHOT]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.sampled_from([FIRST, SECOND, CHECKPOINT]), st.integers(0, 1 << 14))
def test_a_flipped_bit_is_found_wherever_it_is(path: str, bit: int) -> None:
    for ended in (stopped, killed, without_power):
        files = ended()
        size = len(read_file(files, path))
        is_epoch = path == CHECKPOINT and bit // 8 % size % 83 in range(12, 16)
        flip(files, path, bit)
        if not is_epoch:  # of a batch in a snapshot, which nobody looks at
            assert path in refused(files)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 14))
def test_a_flipped_bit_in_the_last_batch_is_found_unless_power_has_failed(bit: int) -> None:
    for ended in (stopped, killed):
        files = ended()
        flip(files, THIRD, bit)
        assert FOLDER in refused(files)


@ENDINGS
def test_a_missing_segment_is_found(ended: Callable[[], FakeFileSystem]) -> None:
    files = ended()
    files.remove(SECOND)
    assert f"{THIRD} at byte 0: a batch begins at offset 6, not 3" in refused(files)


@pytest.mark.parametrize("ended", [stopped, killed])
def test_a_missing_end_is_found(ended: Callable[[], FakeFileSystem]) -> None:
    files = ended()
    files.remove(THIRD)
    assert "the log ends at offset 6, and had 8" in refused(files)


@ENDINGS
def test_a_missing_snapshot_is_found_where_the_log_begins_behind_it(
    ended: Callable[[], FakeFileSystem],
) -> None:
    files = ended()
    files.remove(FIRST)
    files.remove(CHECKPOINT)
    assert "the log begins at offset 3, and no snapshot reaches it" in refused(files)


@ENDINGS
def test_a_damaged_snapshot_is_moved_away_where_the_log_has_all_of_it(
    ended: Callable[[], FakeFileSystem],
) -> None:
    files = ended()
    flip(files, CHECKPOINT, 800)
    assert refused(files).endswith("move it away: what the log has beside it is whole without it")
    files.remove(CHECKPOINT)
    assert QuorumDirectory(files, limits=SMALL).log.log_end_offset == 8


@ENDINGS
def test_a_damaged_snapshot_is_kept_where_the_log_begins_behind_it(
    ended: Callable[[], FakeFileSystem],
) -> None:
    files = ended()
    files.remove(FIRST)
    flip(files, CHECKPOINT, 800)
    assert "move __cluster_metadata-0 and ottla-metadata.written away" in refused(files)


@pytest.mark.parametrize("is_member", [True, False])
def test_a_repair_takes_nothing_out_of_the_log_of_a_node_of_a_cluster(is_member: bool) -> None:
    files = stopped()
    flip(files, SECOND, 800)
    replace_file(files, "/d/meta.properties", b"version=1\nnode.id=1\n")
    if not is_member:
        files.remove(f"/d/{REPLICAS_MARK}")
    _, plan = plan_for(files, FOLDER, deep=False)
    assert [one.kind for one in plan.unmendable] == [FindingKind.LOG_DAMAGE] * is_member
    assert [one.kind for one in plan.actions if one.kind is ActionKind.CUT_OUT] == (
        [] if is_member else [ActionKind.CUT_OUT]
    )


@ENDINGS
def test_a_lost_log_is_not_begun_anew(ended: Callable[[], FakeFileSystem]) -> None:
    files = ended()
    for name in files.list(FOLDER):
        files.remove(f"{FOLDER}/{name}")
    files.remove_directory(FOLDER)
    with pytest.raises(RefusalError, match=r"it is missing, though ottla-metadata\.written says"):
        QuorumDirectory(files)
    assert files.status(FOLDER) is None


def remove_log(files: FakeFileSystem) -> None:
    for name in files.list(FOLDER):
        files.remove(f"{FOLDER}/{name}")
    files.remove_directory(FOLDER)


@pytest.mark.parametrize("ended", [stopped, killed])
def test_a_voter_does_not_begin_anew_where_only_the_note_of_the_boot_knows_of_its_log(
    ended: Callable[[], FakeFileSystem],
) -> None:
    files = ended()
    remove_log(files)
    files.remove("/d/ottla-metadata.written")
    for _ in range(2):  # a start that is refused forgets nothing
        with pytest.raises(RefusalError, match=r"a node of a cluster has used the directory.*vote"):
            QuorumDirectory(files, own=OWN)
        assert files.status(FOLDER) is None


def test_a_voter_does_not_begin_anew_where_only_its_elections_are_left() -> None:
    files = killed()
    for name in files.list(FOLDER):
        if name != "quorum-state":
            files.remove(f"{FOLDER}/{name}")
    files.remove("/d/ottla-metadata.written")
    files.remove("/d/ottla-boot")
    with pytest.raises(RefusalError, match=r"the log's segments are missing; a node that has lost"):
        QuorumDirectory(files, own=OWN)


def test_a_voter_begins_where_a_start_before_it_has_not_come_to_its_log() -> None:
    files = disk("/d")
    open_only(files).abandon()
    assert QuorumDirectory(files, own=OWN).log.log_end_offset == 0


@ENDINGS
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"leaderId":-1,"leaderEpoch":2,"votedId":7,"data_version":7}',
        b'{"leaderId":-1,"leaderEpoch":1,"votedId":7,"data_version":0}',
    ],
)
def test_a_damaged_state_of_elections_is_named(
    content: bytes, ended: Callable[[], FakeFileSystem]
) -> None:
    files = ended()
    replace_file(files, QUORUM_STATE, content)
    line = refused(files)
    assert QUORUM_STATE in line
    assert line.endswith("remove the file, and the node takes part again when it has heard all "
                         "other voters")  # fmt: skip
    files.remove(QUORUM_STATE)
    assert QuorumDirectory(files, limits=SMALL).opened.election is None


@pytest.mark.parametrize("size", [1, 11, 40, 68])
def test_what_a_power_failure_has_torn_is_cut(size: int) -> None:
    files = disk("/d")
    used = QuorumDirectory(files)
    used.opened.elections.write(STATE, 0, NO_VOTERS)
    used.log.append(batch_of(0, 1))
    used.log.sync()
    torn = batch_of(1, 1)[:size]
    file = files.open(FIRST, writable=True)
    file.pwrite(torn, file.size())
    file.sync()
    log = QuorumDirectory(files.crash(CrashMode.STRICT)).log
    assert log.log_end_offset == 1
    log.append(batch_of(1, 2))
    assert log.log_end_offset == 2


def test_who_votes_and_who_only_follows_is_told_another_mend() -> None:
    files = stopped()
    files.remove(SECOND)
    assert refused(files).endswith("away, and the broker fetches all of it again")
    with pytest.raises(RefusalError, match="a node that has lost records must not vote"):
        QuorumDirectory(files, limits=SMALL, own=OWN)
    remove_log(files)
    files.remove("/d/ottla-metadata.written")
    assert QuorumDirectory(files).log.log_end_offset == 0, "what was told is a mend"


# A disk that fails


def calls_of(used: QuorumDirectory) -> list[Callable[[], object]]:
    return [
        used.log.sync,
        lambda: used.log.append(batch_of(1, 1)),
        lambda: used.opened.elections.write(STATE, 0, NO_VOTERS),
        lambda: write_snapshot(used, SnapshotId(1, 1)),
        lambda: used.log.truncate_to(0),
        lambda: used.log.start_at(9),
    ]


def begun(files: FileSystem) -> QuorumDirectory:
    used = QuorumDirectory(files)
    used.opened.elections.write(STATE, 0, NO_VOTERS)
    used.log.append(batch_of(0, 1))
    return used


def test_after_a_failed_sync_nothing_succeeds_and_nothing_is_tried_again() -> None:
    files = BreakableFileSystem(disk("/d"))
    used = begun(files)
    files.fail_syncs()
    with pytest.raises(StorageError):
        used.log.sync()
    files.repair()
    for call in calls_of(used):
        with pytest.raises(StorageError):
            call()


@pytest.mark.parametrize("is_removed", [True, False])
def test_nothing_is_acknowledged_in_a_file_that_another_program_has_removed_or_cut(
    is_removed: bool,
) -> None:
    files = disk("/d")
    used = begun(files)
    used.log.sync()
    if is_removed:
        files.remove(FIRST)
    else:
        files.open(FIRST, writable=True).truncate(0)
    with pytest.raises(StorageError, match=r"the file (is gone|ends here, and had)"):
        used.log.append(batch_of(1, 1))
    for call in calls_of(used)[1:]:
        with pytest.raises(StorageError, match=r"the file (is gone|ends here)"):
            call()


@pytest.mark.parametrize("number", [1, 2])
def test_a_full_disk_is_told_and_a_start_has_what_was_synced(number: int) -> None:
    inner = disk("/d")
    files = BreakableFileSystem(inner)
    used = begun(files)
    used.log.sync()
    files.fill()
    for call in (calls_of(used)[number], *calls_of(used)):
        with pytest.raises(StorageError):
            call()
    left = QuorumDirectory(inner.crash(CrashMode.STRICT)).opened
    assert left.log.log_end_offset == 1
    assert left.election == STATE


def test_voters_of_the_settings_stay_the_same() -> None:
    """A majority of others may never have heard of what the former ones committed."""

    def voter(node_id: int) -> Voter:
        return Voter(ReplicaKey(node_id), (Endpoint("C", "h", node_id),))

    def open_with(*ids: int, is_controller: bool = True) -> None:
        own = voter(1) if is_controller else None
        QuorumDirectory(files, voters=VoterSet.of(map(voter, ids)), own=own).close()

    files = disk("/d")
    open_with(1, 2, 3)
    open_with(1, 2, 3)
    before = everything(files)
    for others in ((1,), (1, 2, 3, 4)):
        with pytest.raises(RefusalError, match=r"the voters were 1, 2, 3, and controller\.quorum"):
            open_with(*others)
    assert everything(files) == before
    open_with(1, is_controller=False)
    files.remove(QUORUM_STATE)
    open_with(1)
