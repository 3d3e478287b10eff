"""Directories of Kafka's controllers and brokers are opened as they were left, and go on."""

import shutil
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.broker.metadata.quorum_log import SegmentLimits
from ottla.quorum.election_state import parse_election_state
from ottla.quorum.log import lineage_of
from ottla.quorum.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from tests.support import SHARED
from tests.support.quorum_logs import QuorumDirectory, batch_of

RECORDED = (SHARED or Path("none")) / "recorded" / "kraft"
STATIC = VoterSet.of([Voter(ReplicaKey(one)) for one in (101, 102, 103)])
FOLDERS = sorted(one.parent for one in RECORDED.rglob("__cluster_metadata-0"))

pytestmark = pytest.mark.skipif(not FOLDERS, reason="needs the shared directories")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda one: f"{one.parent.parent.name}-{one.name}")
def test_what_kafka_left_is_opened_and_goes_on(folder: Path, tmp_path: Path) -> None:
    directory = tmp_path / "d"
    shutil.copytree(folder, directory)
    for one in directory.rglob("*"):
        one.chmod(0o755 if one.is_dir() else 0o644)
    state = folder / "__cluster_metadata-0" / "quorum-state"
    is_used = state.exists()
    is_dynamic = "dynamic" in folder.parts
    voters = NO_VOTERS if is_dynamic else STATIC
    used = QuorumDirectory(OsFileSystem(), str(directory), voters, SegmentLimits())
    opened = used.opened
    if is_used:
        assert opened.election == parse_election_state(state.read_bytes(), str(state))
    assert opened.history.kraft_version == int(is_dynamic)
    assert opened.history.voters.ids & {101, 102, 103}
    snapshots = [one.name for one in (folder / "__cluster_metadata-0").glob("*.checkpoint")]
    assert len(opened.log.snapshots) == len(snapshots)
    lineage = lineage_of(opened.log)
    latest = lineage.latest_snapshot
    assert latest is None or lineage.reaches(latest)
    end, epoch = opened.log.log_end_offset, lineage.last_epoch
    assert (end > 0) == is_used
    opened.elections.write(parse_election_state(
        b'{"leaderId":-1,"leaderEpoch":99,"votedId":-1,"data_version":0}', "q"
    ), int(is_dynamic), opened.history.voters)  # fmt: skip
    opened.log.append(batch_of(end, 99))
    opened.log.sync()
    used.close()
    again = QuorumDirectory(OsFileSystem(), str(directory), voters, SegmentLimits())
    assert again.log.log_end_offset == end + 1
    assert lineage_of(again.log).epoch_at(end - 1) == epoch
    again.close()
