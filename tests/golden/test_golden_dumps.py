"""What `ottla log dump` reads from Kafka's files, field by field as `kafka-dump-log` read it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.storage.diagnosis import rows
from ottla.storage.diagnosis.dump import dump_file, files_to_dump
from ottla.storage.diagnosis.rows import Row
from tests.golden.directories import (
    CASES,
    FILES,
    GOLDEN,
    GoldenFile,
    golden_files,
    is_overwritten,
)

BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<count>\d+) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) "
    r"producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) "
    r"isTransactional: (?P<is_transactional>\w+) isControl: (?P<is_control>\w+) "
    r"deleteHorizonMs: OptionalLong(?:\.empty|\[(?P<delete_horizon_ms>\d+)\]) "
    r"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<compression>\w+) "
    r"crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
OLD_BATCH = re.compile(
    r"offset: (?P<last_offset>\d+) position: (?P<position>\d+) "
    r"(?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d) compresscodec: (?P<compression>\w+) "
    r"crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+) "
    r"(?:sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<header_keys>.*?)\]"
    r"|isValid: true crc: \d+\})"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+)"
    r"| controlType: (?P<control_type>\w+)\(\d\))?"
    r"(?: key: (?P<key>key-[\d-]+))?(?: payload: (?P<text>[ -~]*))?"
)
OFFSET_ENTRY = re.compile(r"offset: (?P<offset>\d+) position: (?P<position>-?\d+)")
TIME_ENTRY = re.compile(r"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>-?\d+)")
PRODUCER = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<producer_epoch>\d+) "
    r"coordinatorEpoch: (?P<coordinator_epoch>-?\d+) "
    r"currentTxnFirstOffset: OptionalLong(?:\.empty|\[(?P<current_txn_first_offset>\d+)\]) "
    r"lastTimestamp: (?P<last_timestamp>-?\d+)"
    r"(?: firstSequence: (?P<first_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) "
    r"lastOffset: (?P<last_offset>-?\d+) offsetDelta: (?P<offset_delta>-?\d+) timestamp: -?\d+)?"
)
TRANSACTION = re.compile(
    r"version: (?P<version>\d+) producerId: (?P<producer_id>\d+) "
    r"firstOffset: (?P<first_offset>\d+) lastOffset: (?P<last_offset>\d+) "
    r"lastStableOffset: (?P<last_stable_offset>\d+)"
)
WORDS = {"true": True, "false": False, "NoTimestampType": None}
OPTIONAL = ("delete_horizon_ms", "current_txn_first_offset")
"""Fields whose absence says something; others are just not printed for some rows."""


def value_of(text: str | None) -> Any:
    if text is None or text in WORDS:
        return None if text is None else WORDS[text]
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def dumped(golden: GoldenFile, *patterns: re.Pattern[str]) -> list[dict[str, Any]]:
    """The fields of the dump's lines that one of the patterns knows."""
    assert golden.dump is not None
    found = []
    for line in golden.dump.splitlines():
        match = next((match for one in patterns if (match := one.match(line.strip()))), None)
        if match is not None:
            fields = {name: value_of(text) for name, text in match.groupdict().items()}
            stated = {"timestamp_type", *OPTIONAL}
            found.append(
                {name: one for name, one in fields.items() if one is not None or name in stated}
            )
    return found


def rows_of(golden: GoldenFile, row_type: type[Row]) -> list[Row]:
    found = list(dump_file(FILES, str(golden.path), deep=True))
    assert not [row for row in found if isinstance(row, rows.DamageRow)]
    return [row for row in found if type(row) is row_type]


def dumped_files(case: str, pattern: str) -> Iterator[GoldenFile]:
    for golden in golden_files(case, pattern):
        if golden.dump is not None and "EXCEPTION" not in golden.dump:
            yield golden


def assert_same(found: list[Row], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for row, fields in zip(found, expected, strict=True):
        assert {name: getattr(row, name) for name in fields} == fields


@pytest.mark.parametrize("case", CASES)
def test_batches_are_those_of_kafka(case: str) -> None:
    for golden in dumped_files(case, "*.log"):
        assert_same(rows_of(golden, rows.BatchRow), dumped(golden, BATCH, OLD_BATCH))


def record_fields(row: Row) -> dict[str, Any]:
    assert isinstance(row, rows.RecordRow)
    is_marker = row.coordinator_epoch is not None
    is_control = row.control_type is not None
    return {
        **{name: getattr(row, name) for name in ("offset", "timestamp", "timestamp_type")},
        **{name: getattr(row, name) for name in ("key_size", "value_size", "sequence")},
        "header_keys": ",".join(name for name, _ in row.headers),
        "marker": row.control_type if is_marker else None,
        "coordinator_epoch": row.coordinator_epoch,
        "control_type": row.control_type if is_control and not is_marker else None,
        "key": (row.key or b"").decode("utf-8", "replace"),
        "text": (row.value or b"").decode("utf-8", "replace"),
    }


def leading_text(found: str, expected: str) -> str:
    """Kafka prints bytes that are no text as it can: they are compared up to the first of them."""
    return found[: len(expected)]


@pytest.mark.parametrize("case", CASES)
def test_records_are_those_of_kafka(case: str) -> None:
    for golden in dumped_files(case, "*.log"):
        expected = dumped(golden, RECORD)
        found = [record_fields(row) for row in rows_of(golden, rows.RecordRow)]
        assert len(found) == len(expected)
        for one, fields in zip(found, expected, strict=True):
            fields["header_keys"] = str(fields.get("header_keys", ""))
            text = str(fields.pop("text", ""))
            assert leading_text(one["text"], text) == text
            assert {name: one[name] for name in fields} == fields


CONTENT: list[tuple[str, type[Row], re.Pattern[str], str | None]] = [
    ("*.index", rows.OffsetIndexRow, OFFSET_ENTRY, "position"),
    ("*.timeindex", rows.TimeIndexRow, TIME_ENTRY, "timestamp"),
    ("*.txnindex", rows.AbortedTransactionRow, TRANSACTION, None),
    ("*.snapshot", rows.ProducerRow, PRODUCER, None),
]
"""The last is the field by which a free entry shows: Kafka's tool prints the first of those."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("content", CONTENT, ids=lambda content: content[0])
def test_indexes_and_snapshots_are_those_of_kafka(
    case: str, content: tuple[str, type[Row], re.Pattern[str], str | None]
) -> None:
    name_pattern, row_type, line_pattern, above_zero = content
    for golden in dumped_files(case, name_pattern):
        if not golden.path.parent.name.startswith("__cluster_metadata"):
            expected = dumped(golden, line_pattern)
            if above_zero is not None:
                expected = [one for one in expected if one[above_zero] > 0]
            assert_same(rows_of(golden, row_type), expected)


@pytest.mark.parametrize("case", CASES)
def test_every_file_of_a_golden_directory_is_known_and_sound(case: str) -> None:
    paths = files_to_dump(FILES, str(GOLDEN / case / "logdir"))
    assert paths
    for path in paths:
        heading, *others = dump_file(FILES, path)
        assert isinstance(heading, rows.FileRow)
        assert heading.kind != "unknown"
        damage = [row for row in others if isinstance(row, rows.DamageRow)]
        assert not damage or is_overwritten(Path(path))
