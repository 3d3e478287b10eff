"""Batches whose headers are read together give what batches read one by one give."""

from bisect import bisect_right
from itertools import accumulate
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.codec.crc32c import crc32c
from ottla.record import columns, header_columns, header_walk, layout
from ottla.record.batch import InvalidBatchError, RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.legacy import build_message

IF_COMPILED = pytest.mark.skipif(not header_walk.IS_COMPILED, reason="nothing is compiled here")

NOW_MS = 1_700_000_000_000

BATCHES = st.lists(
    st.tuples(
        st.integers(1, 5),  # records
        st.integers(0, 3),  # offsets that are missing before it
        st.sampled_from(
            [
                "plain",
                "plain",
                "plain",
                "compressed",
                "marker",
                "append time",
                "gaps",
                "none",
                "old",
            ]
        ),
    ),
    max_size=8,
)


def region(batches: list[tuple[int, int, str]]) -> bytearray:
    found = bytearray()
    offset = 0
    for count, gap, kind in batches:
        offset += gap
        if kind == "old":
            built, count = build_message(b"k", b"v", magic=1, offset=offset, timestamp_ms=NOW_MS), 1
        elif kind == "marker":
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
        if kind in ("gaps", "none"):  # what compaction leaves of a batch
            data = compacted(data, count, keeps_records=kind == "gaps")
        found += data
        offset += count + (kind == "gaps")
    return found


def compacted(data: bytearray, count: int, *, keeps_records: bool) -> bytearray:
    """The batch without its records, or with one offset after its last; with the right CRC."""
    kept = data if keeps_records else data[: layout.HEADER_SIZE]
    fields = list(layout.HEADER.unpack_from(kept))
    names = list(layout.FIELDS)
    fields[names.index("length")] = len(kept) - layout.LENGTH_END
    fields[names.index("last_offset_delta")] = count - 1 + keeps_records
    fields[names.index("record_count")] = count if keeps_records else 0
    layout.HEADER.pack_into(kept, 0, *fields)
    crc = crc32c(memoryview(kept)[layout.ATTRIBUTES_POSITION :])
    layout.CRC.pack_into(kept, layout.CRC_POSITION, crc)
    return kept


def read(data: Buffer, names: tuple[str, ...], bounds: tuple[int, int]) -> Any:
    rows = []
    try:
        for one in columns.iter_columns(data, names, *bounds):
            rows += one.to_pylist()
    except InvalidBatchError as error:
        return rows, str(error)
    return rows, None


NAMES = st.lists(st.sampled_from(columns.COLUMNS), min_size=1, unique=True).map(tuple)


WAYS = [
    pytest.param(True, id="compiled", marks=IF_COMPILED),
    pytest.param(False, id="as its source"),
]


@pytest.mark.parametrize("is_compiled", WAYS)
@given(BATCHES, NAMES, st.tuples(st.integers(0, 30), st.integers(0, 30)), st.data())
def test_rows_and_errors_are_those_of_batches_read_one_by_one(
    is_compiled: bool,
    batches: list[tuple[int, int, str]],
    names: tuple[str, ...],
    bounds: tuple[int, int],
    data: st.DataObject,
) -> None:
    buffer = region(batches)
    if buffer and data.draw(st.booleans()):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] ^= 1
    # As a part of other bytes, which is how a region is read beside aborted transactions.
    view = memoryview(b"before" + bytes(buffer) + b"after")[6 : 6 + len(buffer)]
    with mock.patch.object(header_walk, "IS_COMPILED", is_compiled):
        found = read(view, names, bounds)
    with mock.patch.object(header_columns, "plain_batches", return_value=None):
        expected = read(view, names, bounds)
    assert found == expected


@pytest.mark.parametrize("is_compiled", WAYS)
@pytest.mark.parametrize("names", [("offset",), ("key",), ("timestamp_ms", "offset")])
def test_damage_to_any_byte_but_of_base_offset_and_epoch_is_refused(
    is_compiled: bool, names: tuple[str, ...]
) -> None:
    whole = region([(3, 0, "plain"), (2, 0, "append time"), (4, 0, "compressed"), (2, 3, "gaps")])
    bounds = list(accumulate([one.size for one in iter_batches(whole)], initial=0))
    with mock.patch.object(header_walk, "IS_COMPILED", is_compiled):
        for position in range(len(whole)):
            whole[position] ^= 0x10
            _, error = read(bytes(whole), names, (0, 99))
            whole[position] ^= 0x10
            inside = position - bounds[bisect_right(bounds, position) - 1]
            is_covered = inside >= layout.MAGIC_POSITION or 8 <= inside < layout.LENGTH_END
            assert error is not None or not is_covered, position


def test_batches_that_are_compressed_are_read_together_if_only_offsets_are_wanted() -> None:
    buffer = bytes(region([(3, 0, "compressed"), (2, 0, "marker"), (2, 0, "compressed")]))
    assert header_columns.plain_batches(buffer) is None
    found = header_columns.plain_batches(buffer, only_headers=True)
    assert found is not None
    assert found.headers.dense_offsets().tolist() == [0, 1, 2, 4, 5]
    with mock.patch.object(RecordBatch, "payload", property(lambda _: pytest.fail("unpacked"))):
        assert read(buffer, ("offset",), (1, 5)) == ([{"offset": one} for one in (1, 2, 4)], None)


def test_small_batches_are_read_together() -> None:
    buffer = region([(3, 0, "plain")] * 4)
    plain = header_columns.plain_batches(buffer)
    assert plain is not None
    assert [len(one.start) for one in plain.pieces(7, 1 << 20)] == [2, 2]
    assert [len(one.start) for one in plain.pieces(2, 1 << 20)] == [1, 1, 1, 1]
    assert [len(one.start) for one in plain.pieces(100, 1)] == [1, 1, 1, 1]
    assert plain.within(4, 9).headers.base_offset.tolist() == [3, 6]
    assert pa.Table.from_batches(columns.iter_columns(buffer, ("offset",))).num_rows == 12
