"""A metadata log of ours, read with the classes of Apache Kafka that its client has.

Its jar holds the record layer (`FileRecords`, checksums, control records) and the messages of raft,
not the messages of the metadata itself: those are compared with Kafka's files in `tests/golden`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.compat.java import java_class, kafka, needs_java_client, needs_version_4

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
