"""v2 batches: built, viewed, stamped, read back, and refused when damaged."""

import contextlib
import struct
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.record.batch import (
    InvalidBatchError,
    RecordBatch,
    TimestampType,
    batch_at,
    iter_batches,
)
from ottla.record.builder import RecordBatchBuilder, build_empty_batch
from ottla.record.record import Record, read_records

BYTES = st.none() | st.binary(max_size=30)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
TIMES = st.integers(0, 2**41)
RECORDS = st.lists(st.tuples(BYTES, BYTES, TIMES, HEADERS), min_size=1, max_size=20)


def built(*values: bytes, **attributes: object) -> bytes:
    builder = RecordBatchBuilder(**attributes)  # type: ignore[arg-type]
    for number, value in enumerate(values):
        builder.append(b"key", value, 1000 + number)
    return builder.build()


@pytest.mark.slow
@settings(max_examples=50)
@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**60))
def test_a_batch_gives_back_its_records(
    records: list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]],
    compression: Compression,
    base_offset: int,
) -> None:
    builder = RecordBatchBuilder(base_offset, compression=compression, leader_epoch=7)
    for key, value, timestamp_ms, headers in records:
        builder.append(key, value, timestamp_ms, headers)
    batch = RecordBatch(builder.build())
    batch.check()
    assert batch.compression is compression
    assert batch.record_count == len(records)
    assert batch.max_timestamp_ms == max(one[2] for one in records)
    assert list(read_records(batch)) == [
        Record(
            offset=base_offset + index,
            timestamp_ms=timestamp_ms,
            key=key,
            value=value,
            headers=headers,
            leader_epoch=7,
        )
        for index, (key, value, timestamp_ms, headers) in enumerate(records)
    ]


def test_the_smallest_batch_has_the_bytes_of_the_format() -> None:
    batch = built(b"v", base_offset=5)
    assert batch.hex() == (
        "0000000000000005" "0000003c" "ffffffff" "02" + batch[17:21].hex() + "0000"
        "00000000" "00000000000003e8" "00000000000003e8"
        "ffffffffffffffff" "ffff" "ffffffff" "00000001"
        "14" "00" "00" "00" "06" "6b6579" "02" "76" "00"
    )  # fmt: skip


def test_stamping_moves_a_batch_without_touching_its_checksum() -> None:
    buffer = bytearray(b"??" + built(b"a", b"b"))
    view = RecordBatch(buffer, 2)
    view.stamp(1234, 9)
    batch = RecordBatch(buffer, 2)
    batch.check()
    assert (view.base_offset, view.partition_leader_epoch) == (1234, 9)
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (1234, 1235, 9)


def test_append_time_is_stamped_on_every_record() -> None:
    buffer = bytearray(built(b"a", b"b", compression=Compression.GZIP))
    RecordBatch(buffer).stamp_append_time(77)
    batch = RecordBatch(buffer)
    batch.check()
    assert [one.timestamp_ms for one in read_records(batch)] == [77, 77]
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_sequence_numbers_wrap_to_zero() -> None:
    batch = RecordBatch(built(b"a", b"b", b"c", producer_id=1, base_sequence=2**31 - 2))
    assert batch.last_sequence == 0


def test_attributes_are_distinguished() -> None:
    batch = RecordBatch(
        built(b"a", is_transactional=True, is_control=True, delete_horizon_ms=500, producer_id=3)
    )
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (True,) * 3
    assert batch.base_timestamp_ms == 500
    assert next(read_records(batch)).timestamp_ms == 1000


def is_refused(data: bytes | bytearray) -> bool:
    try:
        batch_at(data).check()
    except InvalidBatchError:
        return True
    return False


def test_a_flipped_bit_is_noticed_or_lies_in_offset_or_epoch() -> None:
    whole = built(b"value")
    checked = [place for place in range(len(whole)) if place >= 16 or 8 <= place < 12]
    for place, bit in product(checked, range(8)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        assert is_refused(damaged), (place, bit)


def test_a_batch_cut_anywhere_is_refused() -> None:
    whole = built(b"value")
    for size in range(len(whole)):
        assert is_refused(whole[:size]), size
        assert list(iter_batches(whole[:size], allow_torn_tail=True)) == []


def test_a_region_is_walked_batch_by_batch_up_to_a_torn_tail() -> None:
    region = built(b"a") + built(b"b", base_offset=1) + built(b"c", base_offset=2)[:-1]
    assert [one.base_offset for one in iter_batches(region, allow_torn_tail=True)] == [0, 1]
    with pytest.raises(InvalidBatchError, match="cut short"):
        list(iter_batches(region))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_viewed_anywhere_in_it(kind: type) -> None:
    batch = RecordBatch(kind(b"before" + built(b"value") + b"trailing"), 6)
    batch.check()
    assert batch.bytes_view() == built(b"value")
    assert [one.value for one in read_records(batch)] == [b"value"]


def test_an_emptied_batch_keeps_its_offsets_and_its_producer() -> None:
    was = RecordBatch(
        built(
            b"a",
            b"b",
            base_offset=7,
            compression=Compression.ZSTD,
            leader_epoch=3,
            producer_id=5,
            producer_epoch=1,
            base_sequence=10,
            is_transactional=True,
        )
    )
    empty = RecordBatch(build_empty_batch(was))
    empty.check()
    assert empty.size == 61
    assert list(read_records(empty)) == []
    kept = ["base_offset", "last_offset_delta", "magic", "max_timestamp_ms", "position"]
    kept += ["partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"]
    for name in kept:
        assert getattr(empty, name) == getattr(was, name), name
    assert (empty.record_count, empty.base_timestamp_ms) == (0, -1)
    assert (empty.is_transactional, empty.compression) == (True, Compression.NONE)
    assert (empty.last_offset, empty.next_offset, empty.last_sequence) == (8, 9, 11)


def test_an_emptied_batch_keeps_whose_time_it_had() -> None:
    was = RecordBatch(built(b"a", append_time_ms=77))
    empty = RecordBatch(build_empty_batch(was))
    assert empty.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert empty.max_timestamp_ms == 77


def with_fields(batch: bytes, record_count: int, last_offset_delta: int, attributes: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 57, record_count)
    struct.pack_into(">hi", changed, 21, attributes, last_offset_delta)
    struct.pack_into(">I", changed, 17, RecordBatch(changed).compute_crc())
    return bytes(changed)


@pytest.mark.parametrize(
    ("record_count", "last_offset_delta", "attributes", "reason"),
    [
        (3, 1, 0, "3 records in 2 offsets"),
        (-1, 1, 0, "-1 records in 2 offsets"),
        (2, 1, 5, "unknown codec 5"),
        (2, 1, 7, "unknown codec 7"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(
    record_count: int, last_offset_delta: int, attributes: int, reason: str
) -> None:
    with pytest.raises(InvalidBatchError, match=reason):
        RecordBatch(
            with_fields(built(b"a", b"b"), record_count, last_offset_delta, attributes)
        ).check()


@pytest.mark.parametrize(("record_count", "reason"), [(1, "follow"), (3, "cut short"), (-1, "-1")])
def test_records_of_another_number_than_stated_are_refused(record_count: int, reason: str) -> None:
    batch = RecordBatch(with_fields(built(b"a", b"b"), record_count, 5, 0))
    with pytest.raises(InvalidBatchError, match=reason):
        list(read_records(batch))


def test_a_batch_that_unpacks_beyond_the_limit_is_refused() -> None:
    batch = RecordBatch(built(bytes(100_000), compression=Compression.ZSTD))
    assert len(list(read_records(batch))) == 1
    with pytest.raises(InvalidBatchError, match="more than 1000 bytes"):
        list(read_records(batch, limit=1000))


def test_a_header_name_that_is_no_text_is_read_as_java_reads_it() -> None:
    builder = RecordBatchBuilder()
    builder.append(None, None, 0, [("?", b"")])
    (record,) = read_records(RecordBatch(builder.build().replace(b"?", b"\xff")))
    assert record.headers == (("\N{REPLACEMENT CHARACTER}", b""),)


def test_a_record_that_was_read_is_frozen_like_any_other() -> None:
    (record,) = read_records(RecordBatch(built(b"value")))
    assert record == Record(offset=0, timestamp_ms=1000, key=b"key", value=b"value")
    assert type(record) is Record
    assert len({record, Record(offset=0, timestamp_ms=1000, key=b"key", value=b"value")}) == 1
    with pytest.raises(AttributeError):
        record.offset = 1  # type: ignore[misc]


@given(st.binary(max_size=120))
def test_garbage_gives_a_batch_or_our_error(data: bytes) -> None:
    with contextlib.suppress(InvalidBatchError):
        batch_at(data).check()


@given(st.binary(min_size=1, max_size=40), st.integers(1, 5))
def test_garbage_under_a_right_checksum_gives_records_or_our_error(data: bytes, count: int) -> None:
    head = bytearray(built(b"x"))[:61]
    struct.pack_into(">i", head, 8, 61 - 12 + len(data))
    struct.pack_into(">ii", head, 23, count - 1, 0)
    struct.pack_into(">i", head, 57, count)
    with contextlib.suppress(InvalidBatchError):
        assert len(list(read_records(RecordBatch(bytes(head) + data)))) == count
