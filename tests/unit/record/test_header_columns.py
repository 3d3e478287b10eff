"""Batches whose headers are read together give what batches read one by one give."""

from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.record import columns, header_columns
from ottla.record.batch import InvalidBatchError, RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker

NOW_MS = 1_700_000_000_000

BATCHES = st.lists(
    st.tuples(
        st.integers(1, 5),  # records
        st.integers(0, 3),  # offsets that are missing before it
        st.sampled_from(["plain", "plain", "plain", "compressed", "marker", "append time"]),
    ),
    max_size=8,
)


def region(batches: list[tuple[int, int, str]]) -> bytearray:
    found = bytearray()
    offset = 0
    for count, gap, kind in batches:
        offset += gap
        if kind == "marker":
            marker = EndTransactionMarker(is_commit=True, coordinator_epoch=0)
            built = build_end_transaction_marker(
                marker, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS, base_offset=offset
            )
            count = 1
        else:
            is_packed = kind == "compressed"
            compression = Compression.GZIP if is_packed else Compression.NONE
            builder = RecordBatchBuilder(offset, compression=compression)
            for number in range(count):
                key = b"%d" % number if number else None
                builder.append(key, b"v" * number, NOW_MS + offset + number)
            built = builder.build()
        data = bytearray(built)
        if kind == "append time":
            RecordBatch(data).stamp_append_time(NOW_MS + 9)
        found += data
        offset += count
    return found


def read(data: bytearray, names: tuple[str, ...], bounds: tuple[int, int]) -> Any:
    rows = []
    try:
        for one in columns.iter_columns(data, names, *bounds):
            rows += one.to_pylist()
    except InvalidBatchError as error:
        return rows, str(error)
    return rows, None


NAMES = st.lists(st.sampled_from(columns.COLUMNS), min_size=1, unique=True).map(tuple)


@given(BATCHES, NAMES, st.tuples(st.integers(0, 30), st.integers(0, 30)), st.data())
def test_rows_and_errors_are_those_of_batches_read_one_by_one(
    batches: list[tuple[int, int, str]],
    names: tuple[str, ...],
    bounds: tuple[int, int],
    data: st.DataObject,
) -> None:
    buffer = region(batches)
    if buffer and data.draw(st.booleans()):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] ^= 1
    found = read(buffer, names, bounds)
    with mock.patch.object(header_columns, "plain_batches", return_value=None):
        expected = read(buffer, names, bounds)
    assert found == expected


def test_small_batches_are_read_together() -> None:
    buffer = region([(3, 0, "plain")] * 4)
    plain = header_columns.plain_batches(buffer)
    assert plain is not None
    assert [len(one.start) for one in plain.pieces(7, 1 << 20)] == [2, 2]
    assert [len(one.start) for one in plain.pieces(2, 1 << 20)] == [1, 1, 1, 1]
    assert [len(one.start) for one in plain.pieces(100, 1)] == [1, 1, 1, 1]
    assert plain.within(4, 9).headers.base_offset.tolist() == [3, 6]
    assert pa.Table.from_batches(columns.iter_columns(buffer, ("offset",))).num_rows == 12
