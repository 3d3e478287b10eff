"""Control records: markers come back, others are told apart."""

import pytest

from ottla.record.batch import InvalidBatchError, RecordBatch, batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
    parse_end_transaction_marker,
)


def control_batch(key: bytes | None, value: bytes | None) -> RecordBatch:
    builder = RecordBatchBuilder(is_control=True, is_transactional=True, producer_id=1)
    builder.append(key, value, 5)
    return RecordBatch(builder.build())


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_marker_comes_back(is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=4)
    data = build_end_transaction_marker(
        marker, producer_id=9, producer_epoch=2, timestamp_ms=1, base_offset=30, leader_epoch=6
    )
    batch = batch_at(data)
    batch.check()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_offset, batch.partition_leader_epoch, batch.record_count) == (30, 6, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    assert parse_end_transaction_marker(batch) == marker
    assert data.endswith(bytes.fromhex("080000000" + "01"[is_commit] + "0c000000000004" + "00"))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("00000000", ControlRecordType.ABORT),
        ("00000001", ControlRecordType.COMMIT),
        ("00000002", ControlRecordType.LEADER_CHANGE),
        ("0000000400ff", ControlRecordType.SNAPSHOT_FOOTER),
        ("00000063", None),
    ],
)
def test_a_key_says_the_kind(key: str, kind: ControlRecordType | None) -> None:
    assert control_type(bytes.fromhex(key)) is kind


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_key_cut_short_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidBatchError, match="cut short"):
        parse_end_transaction_marker(control_batch(key, b"\0" * 6))


@pytest.mark.parametrize("value", [None, b"", b"\0" * 5])
def test_a_marker_cut_short_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidBatchError, match="cut short"):
        parse_end_transaction_marker(control_batch(b"\0\0\0\1", value))


def test_a_marker_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    batch = control_batch(b"\0\1\0\1new", b"\0\1\0\0\0\7new")
    assert parse_end_transaction_marker(batch) == EndTransactionMarker(
        is_commit=True, coordinator_epoch=7
    )


def test_other_control_records_and_emptied_batches_are_no_marker() -> None:
    assert parse_end_transaction_marker(control_batch(b"\0\0\0\2", b"anything")) is None
    empty = RecordBatchBuilder(is_control=True).build(last_offset=3)
    assert parse_end_transaction_marker(RecordBatch(empty)) is None
