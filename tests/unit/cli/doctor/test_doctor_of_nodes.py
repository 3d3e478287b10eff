"""`ottla doctor DIR` of a stopped node of a KRaft cluster says what its start would refuse."""

import shutil
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.broker.metadata.quorum_files import FETCH_AGAIN, LOST_STATE, MEND
from ottla.quorum.election_state import ElectionState
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.storage.files.filenames import METADATA_MARK
from tests.support.quorum_logs import QuorumDirectory, batch_of
from tests.unit.cli.doctor.test_doctor import found

STATE = "__cluster_metadata-0/quorum-state"
LOG = f"__cluster_metadata-0/{0:020}.log"


def stopped_node(path: Path, *voters: int) -> Path:
    """Node 1 was stopped cleanly; its log has two epochs."""
    path.mkdir()
    named = VoterSet.of([Voter(ReplicaKey(one), (Endpoint("C", "h", one),)) for one in voters])
    used = QuorumDirectory(OsFileSystem(), str(path), named)
    used.opened.elections.write(ElectionState(2), 0, named)
    for offset in range(8):
        used.log.append(batch_of(offset, 1 + offset // 5))
    used.log.sync()
    used.close()
    return path


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_sound_node_has_nothing(tmp_path: Path) -> None:
    assert not found(stopped_node(tmp_path / "d", 1, 2, 3))


@pytest.mark.parametrize(("voters", "mend"), [((1, 2, 3), MEND), ((2, 3, 4), FETCH_AGAIN)])
def test_a_damaged_log_is_found_with_the_mend_of_the_start(
    tmp_path: Path, voters: tuple[int, ...], mend: str
) -> None:
    path = stopped_node(tmp_path / "d", *voters)
    flip(path / LOG)
    complaint = found(path)["metadata_log"]
    assert complaint["where"].startswith(f"{path / LOG} at byte ")
    assert (complaint["type"], complaint["fix"]) == ("problem", mend)
    assert complaint["what"].endswith("the node does not start with it")


def test_damaged_elections_are_found_with_the_mend_of_the_start(tmp_path: Path) -> None:
    path = stopped_node(tmp_path / "d", 1, 2, 3)
    epoch = (path / STATE).read_bytes()
    for content in (b"{}", epoch.replace(b'"leaderEpoch":2', b'"leaderEpoch":1')):
        (path / STATE).write_bytes(content)
        complaint = found(path)["metadata_log"]
        assert complaint["where"] == str(path / STATE)
        assert complaint["fix"] == LOST_STATE


def test_nobody_is_told_to_adopt_a_node_whose_log_is_lost_with_its_mark(tmp_path: Path) -> None:
    path = stopped_node(tmp_path / "d", 1, 2, 3)
    shutil.rmtree(path / "__cluster_metadata-0")
    (path / METADATA_MARK).unlink()
    complaints = found(path)
    assert complaints.keys() == {"metadata_log"}
    assert complaints["metadata_log"]["type"] == "problem"
    assert MEND in complaints["metadata_log"]["fix"]


def test_lost_properties_are_restored_from_their_copy_as_a_start_says(tmp_path: Path) -> None:
    path = stopped_node(tmp_path / "d", 1, 2, 3)
    (path / "meta.properties").unlink()
    assert found(path)["meta_properties"]["fix"] == (
        f"restore it from {path / 'ottla-meta-properties'}, which has its content and one more "
        "line, a checksum"
    )
    (path / "ottla-meta-properties").unlink()
    assert found(path)["meta_properties"]["fix"] == (
        "restore it, or its copy, ottla-meta-properties, with node.id, cluster.id and directory.id"
    )
