"""Values as bytes: in the same order, and apart where the values are."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.tables.columns.identity import RowOrder, places_of
from ottla.tables.columns.sortable import is_exact, is_sortable, sortable

KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.decimal128(38, 3), st.decimals(-(10**30), 10**30, places=3)),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda one: str(one)[:20])
@given(data=st.data())
def test_bytes_are_in_the_order_of_values(
    kind: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    some = data.draw(st.lists(values, min_size=2))
    # A slice, whose buffers begin before it.
    column = pa.array([some[0], *some], kind).slice(1)
    found = sortable([column, pa.repeat(b"\x00", len(column))]).to_pylist()
    assert is_sortable(kind)
    for value, its in zip(some, found, strict=True):
        for other, others in zip(some, found, strict=True):
            assert (value < other, value == other) == (its < others, its == others)


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), min_size=2))
def test_keys_of_two_columns_are_equal_only_if_both_are(rows: list[tuple[bytes, bytes]]) -> None:
    columns = [pa.array([row[number] for row in rows], pa.binary()) for number in (0, 1)]
    found = sortable(columns).to_pylist()
    assert len(set(found)) == len(set(rows))
    assert [row for _, row in sorted(zip(found, rows, strict=True))] == sorted(rows)


def test_what_is_no_value_has_no_bytes() -> None:
    assert sortable([pa.array([1, None])]).null_count == 1
    assert sortable([pa.array([1.0, float("nan")])]).null_count == 1
    assert sortable([pa.array([0.0, -0.0])]).unique().to_pylist() == [b"\x01\x80" + bytes(7)]
    assert not is_exact(pa.float64())
    assert not is_sortable(pa.list_(pa.int32()))


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.booleans(), st.text())
def test_a_rank_ends_with_the_place_of_its_record(
    offset: int, partition: int, is_deleted: bool, version: str
) -> None:
    rows = pa.record_batch(
        {
            "v": [version, version],
            "offset": [0, offset],
            "partition": pa.array([0, partition], pa.int32()),
        }
    )
    ranks = RowOrder(version=("v",)).ranks(rows, pa.array([False, is_deleted]).to_numpy(False))
    assert ranks[0].as_py() <= ranks[1].as_py()
    (place,) = places_of(ranks.slice(1)).tolist()
    assert place == (offset, partition, is_deleted)
