"""Kafka's directories read without changing them, as real consumers read them."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.record.record import Record
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from tests.golden.directories import CASES, GOLDEN, copy_of


@dataclass(frozen=True)
class GoldenPartition:
    case: str
    told: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.case}/{self.told['topic']}-{self.told['partition']}"

    def log(self) -> ReadOnlyLog:
        directory = open_for_reading(str(GOLDEN / self.case / "logdir"))
        return directory.partition(self.told["topic"], self.told["partition"])

    @property
    def reported_end(self) -> int:
        """Records may have come after the consumer looked: to internal topics they did."""
        return int(self.told["highWatermark"])


def manifest(case: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((GOLDEN / case / "manifest.json").read_text())
    return told


PARTITIONS = [
    GoldenPartition(case, told) for case in CASES for told in manifest(case).get("partitions", [])
]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def in_terms_of_the_manifest(record: Record) -> dict[str, Any]:
    has_epoch = record.leader_epoch >= 0
    return {
        "offset": record.offset,
        "key": record.key,
        "value": record.value,
        "headers": [(name, value) for name, value in record.headers],
        **({"leaderEpoch": record.leader_epoch} if has_epoch else {}),
        **({"timestamp": record.timestamp_ms} if record.timestamp_type else {}),
    }


def expected(record: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    told = {
        **record,
        "key": decoded(record["key"]),
        "value": decoded(record["value"]),
        "headers": [(name, decoded(value)) for name, value in record["headers"]],
    }
    return {key: told[key] for key in like}


every_partition = pytest.mark.parametrize("golden", PARTITIONS, ids=lambda golden: golden.name)


def check_records(log: ReadOnlyLog, golden: GoldenPartition) -> None:
    """Asserts that a log has the records that a consumer read from Kafka."""
    found = [
        in_terms_of_the_manifest(record)
        for record in log.records.read(log.log_start_offset, golden.reported_end)
    ]
    assert len(found) == len(golden.told["records"])
    for ours, theirs in zip(found, golden.told["records"], strict=True):
        assert ours == expected(theirs, ours)


@every_partition
def test_the_records_are_those_a_consumer_read(golden: GoldenPartition) -> None:
    check_records(golden.log(), golden)


@every_partition
def test_committed_records_are_those_a_consumer_read(golden: GoldenPartition) -> None:
    log = golden.log()
    records = log.records.read(log.log_start_offset, golden.reported_end, read_committed=True)
    offsets = [record.offset for record in records]
    assert offsets == golden.told["readCommittedOffsets"]


@every_partition
def test_the_offsets_are_kafkas(golden: GoldenPartition) -> None:
    log = golden.log()
    told = golden.told
    assert log.log_start_offset == told["logStartOffset"]
    if told["topic"].startswith("__"):
        assert log.log_end_offset >= told["highWatermark"]
        return
    assert log.log_end_offset == told["highWatermark"]
    assert log.offsets.high_watermark <= log.log_end_offset
    if golden.case not in ("kill9-before-damage", "compaction-3-horizon-set"):
        assert log.offsets.high_watermark == told["highWatermark"]
    assert log.transactions.last_stable_offset == told["lastStableOffset"]


@pytest.mark.parametrize("case", CASES)
def test_the_partitions_are_listed(case: str) -> None:
    directory = open_for_reading(str(GOLDEN / case / "logdir"))
    topics = directory.topics()
    told = {(one["topic"], one["partition"]) for one in manifest(case).get("partitions", [])}
    found = {(topic, partition) for topic in topics for partition in topics[topic]}
    assert told <= found
    assert directory.properties is not None
    for topic, partition in found:
        assert len(directory.partition(topic, partition).topic_id or b"") == 16


@every_partition
def test_reading_from_any_offset_begins_there(golden: GoldenPartition) -> None:
    log = golden.log()
    offsets = [record["offset"] for record in golden.told["records"]]
    for start in range(log.log_start_offset, golden.reported_end + 1, 7):
        end = min(start + 5, golden.reported_end)
        found = [record.offset for record in log.records.read(start, end)]
        assert found == [offset for offset in offsets if start <= offset < end]


def test_the_parts_of_a_directory_are_not_directories() -> None:
    if not CASES:
        pytest.skip("no golden directories")
    path = GOLDEN / "basic-none" / "logdir" / "basic-none-0"
    with pytest.raises(UserError, match="single partition"):
        open_for_reading(str(path))


@pytest.mark.parametrize("case", CASES)
def test_a_log_that_is_opened_to_read_gives_what_is_committed(case: str, tmp_path: Path) -> None:
    with ottla.open(copy_of(case, tmp_path / "data"), read_only=True) as log:
        for topic in log.topics():
            for partition, end in log.stable_ends(topic).items():
                stored = open_for_reading(str(GOLDEN / case / "logdir")).partition(topic, partition)
                start = stored.log_start_offset
                wanted = list(stored.records.read(start, end, read_committed=True))
                assert list(log.read(topic, partition)) == wanted
