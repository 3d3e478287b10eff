"""A producer's batch has the bytes that the builder writes one by one, compiled or not."""

from array import array
from threading import Condition
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import TopicPartition
from ottla.client.producing.batches import FEW_RECORDS, Headers, RecordBatchInMaking, Stamp
from ottla.codec.compression import Compression
from ottla.record.builder import RecordBatchBuilder, single_record_batch

Row = tuple[bytes | None, bytes | None, int, Headers]

SIZES = (0, 1, 63, 64, 8_190, 8_192, 70_000)
FIELDS = st.none() | st.binary(max_size=80) | st.sampled_from(SIZES).map(bytes)
TIMES = st.integers(0, 5_000) | st.sampled_from((0, 63, 64, 8_191, 8_192, 1 << 40))
HEADERS = st.just(()) | st.lists(st.tuples(st.text(max_size=4), FIELDS), max_size=3)
ROWS = st.tuples(FIELDS, FIELDS, TIMES, HEADERS)


def batch_of(rows: list[Row]) -> RecordBatchInMaking:
    batch = RecordBatchInMaking(TopicPartition("t", 3), 0.0, Condition())
    for index, (key, value, time_ms, headers) in enumerate(rows):
        batch.keys.append(key)
        batch.values.append(value)
        batch.times_ms.append(time_ms)
        if headers:
            batch.headers[index] = headers
    return batch


def check(rows: list[Row]) -> None:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=1, base_sequence=5)
    for key, value, time_ms, headers in rows:
        builder.append(key, value, time_ms, headers)
    batch = batch_of(rows)
    batch.encode(Stamp(producer_id=7, epoch=1, sequence=5), Compression.NONE)
    assert batch.data == builder.build()


@pytest.mark.slow
@given(st.lists(ROWS, min_size=1, max_size=6))
def test_a_few_records_are_packed_as_the_builder_packs_them(rows: list[Row]) -> None:
    check(rows)


@pytest.mark.slow
@given(ROWS)
def test_a_single_record_is_too(row: Row) -> None:
    key, value, time_ms, headers = row
    builder = RecordBatchBuilder()
    builder.append(key, value, time_ms, headers)
    assert single_record_batch(key, value, time_ms, headers) == builder.build()


def test_a_field_that_is_a_view_of_an_array_is_its_bytes() -> None:
    numbers: Any = memoryview(array("i", [1, 2, 3]))
    plain = numbers.tobytes()
    builder = RecordBatchBuilder()
    builder.append(numbers, numbers, 5, [("h", numbers)])
    wanted = single_record_batch(plain, plain, 5, [("h", plain)])
    assert builder.build() == wanted
    assert single_record_batch(numbers, numbers, 5, [("h", numbers)]) == wanted


@pytest.mark.parametrize("wrong", [("k", b""), (b"", 5)])
def test_what_has_no_bytes_is_no_field(wrong: Any) -> None:
    with pytest.raises(TypeError):
        single_record_batch(*wrong, 5)
    with pytest.raises(TypeError):
        single_record_batch(None, b"", 5, [(b"name", b"")])  # type: ignore[list-item]
    for time in (1 << 63, "now"):
        with pytest.raises((TypeError, ValueError)):
            single_record_batch(None, b"", time)  # type: ignore[arg-type]


@pytest.mark.slow
def test_so_are_many_with_and_without_headers() -> None:
    fields: list[bytes | None] = [None, b"", b"tea", b"x" * 9_000]
    rows: list[Row] = [
        (fields[number % 3], fields[number % 4], 9_000 - number, ())
        for number in range(200 * FEW_RECORDS)
    ]
    check(rows)
    check([*rows, (b"k", None, 5, [("name", None), ("näme", b"value")])])


def test_records_say_where_they_lie() -> None:
    batch = batch_of([(None, b"a", 1, ()), (None, b"b", 2, ())])
    batch.base_offset = 40
    assert batch.record(1) == ("t", 3, 41, 2)
