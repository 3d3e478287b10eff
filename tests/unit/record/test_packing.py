"""Records packed column by column are those that the builder writes one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from ottla.record.batch import RecordBatch  # noqa: E402
from ottla.record.builder import RecordBatchBuilder  # noqa: E402
from ottla.record.layout import HEADER  # noqa: E402
from ottla.record.packing import RecordColumns, pack_records  # noqa: E402
from ottla.record.partitioner import partition_for_key, partitions_for_keys  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NO_LIMIT = 1 << 30

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]


def columns_of(rows: list[Row]) -> RecordColumns:
    return RecordColumns(
        key=pa.array([key for key, _, _, _ in rows], pa.binary()),
        value=pa.array([value for _, value, _, _ in rows], pa.binary()),
        headers=pa.array(
            [
                None if headers is None else [{"key": k, "value": v} for k, v in headers]
                for _, _, headers, _ in rows
            ],
            HEADERS,
        ),
    )


def packed_one_by_one(rows: list[Row]) -> bytes:
    builder = RecordBatchBuilder()
    for key, value, headers, _ in rows:
        builder.append(key, value, 0, headers or ())
    return bytes(RecordBatch(builder.build()).payload)


blobs = st.none() | st.binary(max_size=200)
headers_of_a_row = st.none() | st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3
)
some_rows = st.lists(
    st.tuples(blobs, blobs, headers_of_a_row, st.integers(0, 3)), min_size=1, max_size=200
)


@pytest.mark.slow
@given(rows=some_rows)
def test_packed_records_are_the_bytes_of_the_builder(rows: list[Row]) -> None:
    partitions = np.array([row[3] for row in rows])
    found = pack_records(columns_of(rows), partitions, NO_LIMIT)
    expected = {
        number: [row for row in rows if row[3] == number] for number in sorted(set(partitions))
    }
    assert [one.partition for one in found] == list(expected)
    for one, of_partition in zip(found, expected.values(), strict=True):
        assert one.count == len(of_partition)
        assert bytes(one.payload) == packed_one_by_one(of_partition)


def test_sliced_columns_and_absent_ones_are_packed_as_well() -> None:
    rows: list[Row] = [(b"k%d" % n, b"v" * n, [("h", b"%d" % n)], 0) for n in range(300)]
    whole = columns_of(rows)
    sliced = RecordColumns(
        key=whole.key[100:], value=whole.value[100:], headers=whole.headers[100:]
    )
    (found,) = pack_records(sliced, np.zeros(200, int), NO_LIMIT)
    assert bytes(found.payload) == packed_one_by_one(rows[100:])
    (bare,) = pack_records(RecordColumns(key=None, value=whole.value), np.zeros(300, int), NO_LIMIT)
    assert bytes(bare.payload) == packed_one_by_one(
        [(None, value, (), 0) for _, value, _, _ in rows]
    )


def test_no_rows_are_no_batches() -> None:
    assert pack_records(columns_of([]), np.zeros(0, int), NO_LIMIT) == []


@pytest.mark.parametrize("max_size", [100, 200, 1000, 5000])
def test_a_batch_is_no_larger_than_asked_and_a_larger_record_stands_alone(max_size: int) -> None:
    rows: list[Row] = [(None, bytes(n * 37 % 300), None, n % 2) for n in range(100)]
    found = pack_records(columns_of(rows), np.array([row[3] for row in rows]), max_size)
    counts = {
        number: sum(one.count for one in found if one.partition == number) for number in (0, 1)
    }
    assert counts == {0: 50, 1: 50}
    for one in found:
        assert one.count == 1 or one.size <= max_size
        assert one.size == HEADER.size + len(one.payload)
    if max_size == 5000:
        assert all(one.size > max_size // 2 for one in found[:-3])


def test_a_header_without_a_name_is_refused() -> None:
    nameless: Any = [(b"k", b"v", [(None, b"x")], 0)]
    with pytest.raises(ValueError, match="a header has no name"):
        pack_records(columns_of(nameless), np.zeros(1, int), NO_LIMIT)


@pytest.mark.slow
@given(keys=st.lists(st.binary(max_size=40) | st.binary(min_size=500, max_size=530), max_size=50))
def test_a_column_of_keys_goes_where_each_key_goes(keys: list[bytes]) -> None:
    column = pa.array([b"before", *keys], pa.binary())[1:]
    expected = [partition_for_key(key, 7) for key in keys]
    assert partitions_for_keys(column, 7).tolist() == expected
