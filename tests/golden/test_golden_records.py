"""Every record in directories that Apache Kafka wrote, as a real consumer read it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from tests.support import SHARED

CASES = [
    path
    for path in sorted(SHARED.glob("golden/*/manifest.json") if SHARED else ())
    if "partitions" in json.loads(path.read_text())
]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def expected_record(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "offset": record["offset"],
        "timestamp_ms": record["timestamp"],
        "timestamp_type": record["timestampType"],
        "key": decoded(record["key"]),
        "value": decoded(record["value"]),
        "headers": [(name, decoded(value)) for name, value in record["headers"]],
        "leader_epoch": -1 if record["leaderEpoch"] is None else record["leaderEpoch"],
    }


def records_of(directory: Path, log_start_offset: int, end: int) -> list[dict[str, Any]]:
    """What we read between two offsets, in the manifest's terms ("none" and 0 in format v0)."""
    found = []
    for path in sorted(directory.glob("*.log")):
        for batch in iter_batches(path.read_bytes(), allow_torn_tail=True):
            batch.check()
            if batch.is_control:
                continue
            for record in read_records(batch):
                if log_start_offset <= record.offset < end:
                    kind = record.timestamp_type
                    found.append(
                        {
                            "offset": record.offset,
                            "timestamp_ms": record.timestamp_ms if kind else 0,
                            "timestamp_type": kind.kafka_name if kind else "none",
                            "key": record.key,
                            "value": record.value,
                            "headers": list(record.headers),
                            "leader_epoch": record.leader_epoch,
                        }
                    )
    return found


@pytest.mark.skipif(not CASES, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize("manifest", CASES, ids=lambda path: path.parent.name)
def test_every_record_is_what_a_consumer_of_kafka_read(manifest: Path) -> None:
    partitions = json.loads(manifest.read_text())["partitions"]
    for partition in partitions:
        expected = [expected_record(record) for record in partition["records"]]
        found = records_of(
            manifest.parent / partition["dir"],
            partition["logStartOffset"],
            # What was appended after the consumer had read is not in the manifest.
            partition["highWatermark"],
        )
        assert found == expected


def rows_of(directory: Path, log_start_offset: int, end: int) -> list[dict[str, Any]]:
    """The same read as Arrow columns."""
    from ottla.record.columns import iter_columns

    return [
        row
        for path in sorted(directory.glob("*.log"))
        for piece in iter_columns(
            path.read_bytes(), start_offset=log_start_offset, end_offset=end, max_rows=100
        )
        for row in piece.to_pylist()
    ]


def expected_row(record: dict[str, Any]) -> dict[str, Any]:
    kind = {"none": -1, "CreateTime": 0, "LogAppendTime": 1}[record["timestampType"]]
    return {
        "offset": record["offset"],
        "timestamp_ms": -1 if kind == -1 else record["timestamp"],
        "timestamp_type": kind,
        "key": decoded(record["key"]),
        "value": decoded(record["value"]),
        "headers": [{"key": name, "value": decoded(value)} for name, value in record["headers"]],
    }


@pytest.mark.skipif(not CASES, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize("manifest", CASES, ids=lambda path: path.parent.name)
def test_every_row_is_what_a_consumer_of_kafka_read(manifest: Path) -> None:
    for partition in json.loads(manifest.read_text())["partitions"]:
        found = rows_of(
            manifest.parent / partition["dir"],
            partition["logStartOffset"],
            partition["highWatermark"],
        )
        assert found == [expected_row(record) for record in partition["records"]]
