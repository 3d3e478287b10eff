"""What was acquired of fetched batches: records, gaps, and what cannot be read."""

import json

from ottla.base.partitions import TopicPartition
from ottla.client.consumer.records import CorruptBatchError, Decoding, DeserializationError
from ottla.client.sharing.records import Decoded, ShareRecord, Unreadable, decode
from ottla.coordinator.share.records_in_flight import AcquiredRange
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker

PLACE = TopicPartition("t", 0)


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(base_offset)
    for value in values:
        builder.append(None, value, 1000)
    return builder.build()


def decoded(records: bytes, *acquired: tuple[int, int, int], decoding: Decoding) -> Decoded:
    return decode(decoding, PLACE, memoryview(records), [AcquiredRange(*one) for one in acquired])


def offsets(part: list[ShareRecord] | Unreadable) -> list[tuple[int, int]]:
    assert isinstance(part, list)
    return [(one.offset, one.delivery_count) for one in part]


def test_only_acquired_records_are_returned_with_their_delivery_counts() -> None:
    found = decoded(batch(10, *[b"x"] * 6), (11, 12, 1), (14, 14, 3), decoding=Decoding())
    assert [offsets(one) for one in found.parts] == [[(11, 1), (12, 1), (14, 3)]]
    assert found.gaps == []


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=2,
    )
    found = decoded(batch(0, b"a", b"b") + marker + batch(5, b"c"), (0, 5, 1), decoding=Decoding())
    assert [offsets(one) for one in found.parts] == [[(0, 1), (1, 1), (5, 1)]]
    assert found.gaps == [2, 3, 4]


def test_a_value_that_cannot_be_read_stops_no_others() -> None:
    values = [b"1", b"one", b"3", b"three"]
    found = decoded(batch(0, *values), (0, 2, 1), decoding=Decoding(value=json.loads))
    first, wrong, last = found.parts
    assert (offsets(first), offsets(last)) == ([(0, 1)], [(2, 1)])
    assert isinstance(wrong, Unreadable)
    assert isinstance(wrong.error, DeserializationError)
    assert (wrong.offsets, wrong.is_damaged) == ([1], False)


def test_of_a_damaged_batch_nothing_is_returned_and_the_next_one_is() -> None:
    damaged = bytearray(batch(0, b"a", b"b"))
    damaged[-1] ^= 1
    found = decoded(bytes(damaged) + batch(2, b"c"), (0, 2, 1), decoding=Decoding())
    wrong, last = found.parts
    assert isinstance(wrong, Unreadable)
    assert isinstance(wrong.error, CorruptBatchError)
    assert (wrong.offsets, wrong.is_damaged) == ([0, 1], True)
    assert offsets(last) == [(2, 1)]
