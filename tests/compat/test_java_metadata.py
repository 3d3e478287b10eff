"""A metadata log of ours, read with the classes of Apache Kafka that its client has.

Its jar holds the record layer (`FileRecords`, checksums, control records) and the messages of raft,
not the messages of the metadata itself: those are compared with Kafka's files in `tests/golden`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.broker.metadata.quorum_log import snapshot_name
from tests.compat.java import java_class, kafka, needs_java_client, needs_version_4
from tests.support.brokers import NOW_MS
from tests.support.quorum_logs import SnapshotNode

pytestmark = [pytest.mark.slow, needs_java_client, needs_version_4]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """In which topics were created twice."""
    data = tmp_path / "data"
    for name in ("t", "u"):
        with ottla.open(data) as log:
            log.create_topic(name, partitions=3, config={"retention.ms": -1})
            log.append(name, b"value")
    return data


def batches(path: Path) -> Iterator[Any]:
    """The batches of a file, each checked by Kafka."""
    file = java_class("java.io.File")(str(path))
    records = kafka("common.record.internal.FileRecords").open(file, False)
    try:
        for batch in records.batches():
            batch.ensureValid()
            yield batch
    finally:
        records.close()


def control_records(batch: Any) -> list[tuple[str, Any]]:
    types = kafka("common.record.internal.ControlRecordType")
    return [(str(types.parse(record.key())), record) for record in batch]


def test_kafkas_record_layer_finds_each_epoch_whole_and_in_order(directory: Path) -> None:
    utils = kafka("common.record.internal.ControlRecordUtils")
    segments = sorted((directory / "__cluster_metadata-0").glob("*.log"))
    next_offset, epochs = 0, []
    for segment in segments:
        assert int(segment.stem) == next_offset
        for batch in batches(segment):
            assert batch.baseOffset() == next_offset
            next_offset = batch.lastOffset() + 1
            if batch.isControlBatch():
                ((kind, record),) = control_records(batch)
                assert kind == "LEADER_CHANGE"
                change = utils.deserializeLeaderChangeMessage(record)
                assert change.leaderId() == 1
                assert [voter.voterId() for voter in change.voters()] == [1]
                epochs.append(batch.partitionLeaderEpoch())
            assert batch.partitionLeaderEpoch() == epochs[-1]
    assert epochs == [1, 2]


def test_kafkas_record_layer_finds_the_bootstrap_snapshot_whole(directory: Path) -> None:
    utils = kafka("common.record.internal.ControlRecordUtils")
    header, records, footer = batches(directory / "bootstrap.checkpoint")
    ((kind, first),) = control_records(header)
    assert kind == "SNAPSHOT_HEADER"
    assert utils.deserializeSnapshotHeaderRecord(first).version() == 0
    assert not records.isControlBatch()
    ((kind, last),) = control_records(footer)
    assert kind == "SNAPSHOT_FOOTER"
    assert utils.deserializeSnapshotFooterRecord(last).version() == 0


def test_kafkas_record_layer_finds_the_voters_at_the_head_of_a_snapshot(tmp_path: Path) -> None:
    utils = kafka("common.record.internal.ControlRecordUtils")
    node = SnapshotNode(OsFileSystem(), path=str(tmp_path))
    for number in range(3):
        node.commit(number, count=700)
    made = node.make()
    node.used.close()
    head, *records, footer = batches(tmp_path / "__cluster_metadata-0" / snapshot_name(made))
    (header, first), (version, second), (voters, third) = control_records(head)
    assert (header, version, voters) == ("SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS")
    assert utils.deserializeSnapshotHeaderRecord(first).lastContainedLogTimestamp() == NOW_MS
    assert utils.deserializeKRaftVersionRecord(second).kRaftVersion() == 1
    (voter,) = utils.deserializeVotersRecord(third).voters()
    (endpoint,) = voter.endpoints()
    assert (voter.voterId(), endpoint.name(), endpoint.port()) == (1, "C", 1)
    assert sum(batch.lastOffset() - batch.baseOffset() + 1 for batch in records) == 2100
    assert [kind for kind, _ in control_records(footer)] == ["SNAPSHOT_FOOTER"]
