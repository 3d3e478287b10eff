"""Every record that Kafka's coordinators wrote: read, and written again byte by byte."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.classic.consumer_protocol import decode_assignment, decode_subscription
from ottla.coordinator.offsets import records as group_records
from ottla.coordinator.transaction import records as transaction_records
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.record import Record, read_records
from tests.support import SHARED

GROUP_LOGS = sorted(SHARED.glob("golden/*/logdir/__consumer_offsets-*/*.log") if SHARED else ())
TRANSACTION_LOGS = sorted(
    SHARED.glob("golden/*/logdir/__transaction_state-*/*.log") if SHARED else ()
)


def name_of(path: Path) -> str:
    return f"{path.parents[2].name}/{path.parent.name}"


def coordinator_records(path: Path) -> Iterator[Record]:
    for batch in iter_batches(path.read_bytes()):
        assert isinstance(batch, RecordBatch)
        if not batch.is_control:
            yield from read_records(batch)


def dumped(path: Path) -> dict[int, dict[str, Any]]:
    """What Kafka's own tool read: the key and the value of each offset."""
    dump = path.parents[2] / "dump" / path.parent.name / f"{path.stem}.log.decoded.txt"
    found = {}
    pattern = re.compile(r"offset: (\d+) .* key: (\{.*\}) payload: (\{.*\}|<DELETE>)$")
    for line in dump.read_text().splitlines() if dump.exists() else ():
        match = pattern.search(line)
        if match:
            value = None if match[3] == "<DELETE>" else json.loads(match[3])["data"]
            found[int(match[1])] = {"key": json.loads(match[2])["data"], "value": value}
    return found


@pytest.mark.parametrize("path", GROUP_LOGS, ids=name_of)
def test_group_records_read_and_write_alike(path: Path) -> None:
    expected = dumped(path)
    for record in coordinator_records(path):
        assert record.key is not None
        key = group_records.decode_key(record.key)
        assert key is not None
        assert group_records.encode_key(key) == record.key
        value = None
        if record.value is not None:
            value = group_records.decode_value(key, record.value)
            assert group_records.encode_value(value) == record.value
        if record.offset in expected:
            check_group_record(key, value, expected[record.offset])


def check_group_record(key: Any, value: Any, expected: dict[str, Any]) -> None:
    assert key.group == expected["key"]["group"]
    assert (value is None) == (expected["value"] is None)
    if isinstance(value, group_records.OffsetCommitValue):
        assert (key.topic, key.partition) == (
            expected["key"]["topic"],
            expected["key"]["partition"],
        )
        assert value.offset == expected["value"]["offset"]
        assert value.metadata == expected["value"]["metadata"]
        assert value.commit_timestamp_ms == expected["value"]["commitTimestamp"]
    if isinstance(value, group_records.GroupMetadataValue):
        assert value.generation == expected["value"]["generation"]
        for ours, theirs in zip(value.members, expected["value"]["members"], strict=True):
            check_member(ours, theirs)


def check_member(ours: group_records.MemberMetadata, theirs: dict[str, Any]) -> None:
    assert ours.member_id == theirs["memberId"]
    assert ours.session_timeout_ms == theirs["sessionTimeout"]
    assert decode_subscription(ours.subscription).topics == theirs["subscription"]["topics"]
    assigned = decode_assignment(ours.assignment).assigned_partitions
    assert [(one.topic, one.partitions) for one in assigned] == [
        (one["topic"], one["partitions"]) for one in theirs["assignment"]["assignedPartitions"]
    ]


@pytest.mark.parametrize("path", TRANSACTION_LOGS, ids=name_of)
def test_transaction_records_read_and_write_alike(path: Path) -> None:
    for record in coordinator_records(path):
        assert record.key is not None
        key = transaction_records.decode_key(record.key)
        assert key is not None
        assert transaction_records.encode_key(key) == record.key
        if record.value is not None:
            value = transaction_records.decode_value(record.value)
            assert transaction_records.encode_value(value) == record.value


@pytest.mark.skipif(SHARED is None, reason="no golden data beside the repository")
def test_the_golden_data_has_records_of_both_coordinators() -> None:
    assert sum(len(list(coordinator_records(path))) for path in GROUP_LOGS) > 10
    assert sum(len(list(coordinator_records(path))) for path in TRANSACTION_LOGS) > 10
    assert any(dumped(path) for path in GROUP_LOGS)
