"""The metadata logs that Kafka's controllers and brokers left: replayed to what their snapshots
have, and followed by a node of ours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid, parse_uuid
from ottla.base.timestamps import Timestamps
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import MetadataFile, read_log
from ottla.quorum.effects import HighWatermarkMoved, Send, SyncLog
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import carry_out, lineage_of, take_history
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import BeginQuorumEpoch, Fetch, FetchAnswer, Known, SnapshotId
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import NO_VOTERS, Endpoint, ReplicaKey, VoterHistory
from ottla.record.batch import iter_batches
from tests.simulation.quorum_disk import MemoryDirectory
from tests.support import SHARED

RECORDED = (SHARED or Path("none")) / "recorded" / "kraft"
LOGS = sorted(RECORDED.glob("**/logdirs/*/__cluster_metadata-0"))
pytestmark = pytest.mark.skipif(not LOGS, reason="needs the shared directories")

each_log = pytest.mark.parametrize("folder", LOGS, ids=lambda path: path.parent.name)
LEADER = Endpoint("CONTROLLER", "leader", 9093)
AT = Timestamps(now_ms=0, monotonic_ms=0)


def metadata_file(path: Path) -> MetadataFile:
    offset, _, epoch = path.stem.partition("-")
    return MetadataFile(
        path=str(path), content=path.read_bytes(), offset=int(offset), epoch=int(epoch or 0)
    )


def snapshots_of(folder: Path) -> list[MetadataFile]:
    return [metadata_file(path) for path in sorted(folder.glob("*.checkpoint"))]


def segment_of(folder: Path) -> MetadataFile:
    (path,) = folder.glob("*.log")
    return metadata_file(path)


def until(segment: MetadataFile, offset: int) -> MetadataFile:
    batches = [one for one in iter_batches(segment.content) if one.next_offset <= offset]
    return replace(segment, content=b"".join(bytes(one.bytes_view()) for one in batches))


def comparable(image: MetadataImage) -> MetadataImage:
    """Without what only a log has: who voted, and what happened since the snapshot. Snapshots have
    the listeners in the order of a hash map.
    """
    brokers = {
        broker_id: replace(one, endpoints=tuple(sorted(one.endpoints, key=str)))
        for broker_id, one in image.brokers.items()
    }
    return replace(image, revision=0, removed=frozenset(), voters=frozenset(), brokers=brokers)


@each_log
def test_a_log_is_replayed_to_what_its_snapshots_have(folder: Path) -> None:
    segment, snapshots = segment_of(folder), snapshots_of(folder)
    first = snapshots[0] if snapshots and snapshots[0].offset <= segment.offset else None
    compared = 0
    for snapshot in snapshots:
        if snapshot is first or snapshot.offset == 0:
            continue
        log = read_log(first, [until(segment, snapshot.offset)], may_be_torn=False)
        told = read_log(snapshot, (), may_be_torn=False)
        assert comparable(log.image()) == comparable(told.image()), snapshot.path
        compared += 1
    assert compared or len(snapshots) < 2


def test_the_log_of_one_controller_was_compared_with_five_snapshots() -> None:
    assert len(snapshots_of(RECORDED / "logdirs" / "controller-102" / LOGS[0].name)) == 5


# A node of ours


def directory_of(folder: Path) -> MemoryDirectory:
    segment = segment_of(folder)
    found = MemoryDirectory()
    for one in snapshots_of(folder):
        found.complete[SnapshotId(one.offset, one.epoch)] = one.content
    found.content.start = segment.offset
    found.append(segment.content)
    found.sync(found.log_end_offset)
    return found


@pytest.mark.parametrize("name", ["controller-102", "controller-103", "broker-1-metadata"])
def test_the_voters_are_those_of_the_last_record(name: str) -> None:
    history = VoterHistory(0, NO_VOTERS)
    folder = RECORDED / "dynamic" / "logdirs" / name / LOGS[0].name
    take_history(directory_of(folder), history)
    assert (history.kraft_version, history.voters.ids) == (1, {101, 103})
    own = properties_of(RECORDED / "dynamic" / "logdirs" / "controller-103")
    assert history.voters.has(ReplicaKey(103, parse_uuid(own["directory.id"])))
    assert not history.voters.has(ReplicaKey(103, Uuid(bytes(15) + b"\1")))


def properties_of(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@each_log
def test_an_observer_of_ours_ends_with_the_same_bytes(folder: Path) -> None:
    """It fetches all epochs of it, 4 KiB at a time."""
    source = directory_of(folder)
    lineage = lineage_of(source)
    disk = MemoryDirectory()
    if source.log_start_offset:
        (first,) = [one for one in source.snapshots if one.end_offset == source.log_start_offset]
        disk.complete[first] = source.complete[first]
        disk.content.start = source.log_start_offset
    history = VoterHistory(0, NO_VOTERS)
    take_history(disk, history)
    key = ReplicaKey(9, Uuid(bytes(15) + b"\7"))
    options = QuorumOptions(key=key, cluster_id="c", bootstrap=(LEADER,), fetch_max_bytes=4096)
    quorum = Quorum(options, lineage_of(disk), history, lambda _: 0)
    quorum.start(ElectionState(), AT)
    known = Known(lineage.last_epoch, 101, LEADER)
    effects: list[Any] = quorum.receive(
        "begun", BeginQuorumEpoch("c", ReplicaKey(9), 101, known.epoch, (LEADER,)), AT
    )
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, SyncLog):
            effects += quorum.synced(effect, AT)
        elif isinstance(effect, Send) and isinstance(effect.request, Fetch):
            offset = effect.request.offset
            epoch = effect.request.last_fetched_epoch
            assert not offset or lineage.check_fetch(offset, epoch) is None
            if offset < source.log_end_offset:
                end = source.log_end_offset
                records = source.read(offset, effect.request.max_bytes)
                answer = FetchAnswer(ErrorCode.NONE, known, end, 0, records=records)
                effects += quorum.answered(effect.number, answer, AT)
        else:
            carry_out(effect, disk)
        assert not isinstance(effect, HighWatermarkMoved) or effect.offset <= disk.log_end_offset
    assert disk.content.entries == source.content.entries
    assert quorum.high_watermark == source.log_end_offset
    is_dynamic = "dynamic" in folder.parts
    assert quorum.node.history.voters.ids == ({101, 103} if is_dynamic else set())
