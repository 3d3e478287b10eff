"""Every header and marker in segments written by Kafka, as `kafka-dump-log` tells them."""

import re

import pytest

from ottla.record.batch import Batch, RecordBatch, iter_batches
from ottla.record.control import parse_end_transaction_marker
from ottla.record.legacy import LegacyBatch
from tests.support import SHARED

LOGS = [
    (log, dump)
    for log in (sorted(SHARED.glob("golden/*/logdir/*/*.log")) if SHARED else ())
    if (dump := log.parents[2] / "dump" / log.parent.name / f"{log.name}.txt").exists()
]
DIRECTORIES = sorted({log.parts[-4] for log, _ in LOGS})

HEADER_LINE = re.compile(r"^(?:baseOffset|offset): .*isvalid: true$", re.MULTILINE)
MARKER_LINE = re.compile(
    r"^\| offset: (\d+) .*endTxnMarker: ([A-Z]+) coordinatorEpoch: (\d+)", re.M
)


def dump_line(batch: Batch) -> str:
    """What `kafka-dump-log` says of a batch."""
    batch.check()
    kind = batch.timestamp_type
    assert isinstance(batch, RecordBatch | LegacyBatch)
    place = (
        f"position: {batch.position} {kind.kafka_name if kind else 'NoTimestampType'}: "
        f"{batch.max_timestamp_ms} size: {batch.size} magic: {batch.magic} "
        f"compresscodec: {batch.compression.kafka_name} crc: {batch.crc} isvalid: true"
    )
    if isinstance(batch, LegacyBatch):
        return f"offset: {batch.last_offset} {place}"
    horizon = f"[{batch.base_timestamp_ms}]" if batch.has_delete_horizon else ".empty"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} "
        f"count: {batch.record_count} baseSequence: {batch.base_sequence} "
        f"lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} "
        f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
        f"isTransactional: {str(batch.is_transactional).lower()} "
        f"isControl: {str(batch.is_control).lower()} "
        f"deleteHorizonMs: OptionalLong{horizon} {place}"
    )


def marker_of(batch: Batch) -> tuple[str, str, str] | None:
    marker = parse_end_transaction_marker(batch) if batch.is_control else None
    if marker is None:
        return None
    kind = "COMMIT" if marker.is_commit else "ABORT"
    return str(batch.base_offset), kind, str(marker.coordinator_epoch)


@pytest.mark.skipif(not LOGS, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_headers_and_markers_are_what_kafka_says(directory: str) -> None:
    for log, dump in (one for one in LOGS if one[0].parts[-4] == directory):
        said = dump.read_text(errors="replace")
        batches = list(iter_batches(log.read_bytes(), allow_torn_tail=True))
        assert [dump_line(one) for one in batches] == HEADER_LINE.findall(said)
        assert [one for one in map(marker_of, batches) if one] == MARKER_LINE.findall(said)
