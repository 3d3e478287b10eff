"""Columns hold what `read_records` gives, for any region, range and choice of columns."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.codec.crc32c import crc32c
from ottla.record import columns
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record, read_records
from tests.support.random_batches import regions

CHOICES = st.lists(st.sampled_from(columns.COLUMNS), unique=True, min_size=1)


def row(record: Record) -> dict[str, object]:
    kind = record.timestamp_type
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": -1 if kind is None else kind.value,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers],
    }


def rows(region: bytes, names: list[str], start: int, end: int) -> list[dict[str, object]]:
    return [
        {name: row(record)[name] for name in names}
        for batch in iter_batches(region)
        if not batch.is_control
        for record in read_records(batch)
        if start <= record.offset < end
    ]


@pytest.mark.slow
@settings(deadline=None)
@given(regions(), CHOICES, st.integers(90, 140), st.integers(90, 180))
def test_columns_equal_records(
    region: tuple[bytes, int], names: list[str], start: int, end: int
) -> None:
    found = columns.decode_columns(region[0], names, start, end)
    assert found.schema == columns.schema(names)
    assert found.to_pylist() == rows(region[0], names, start, end)


@pytest.mark.slow
@settings(deadline=None)
@given(regions(), st.integers(1, 10))
def test_pieces_together_are_the_whole(region: tuple[bytes, int], max_rows: int) -> None:
    pieces = list(columns.iter_columns(memoryview(region[0]), max_rows=max_rows))
    assert all(1 <= one.num_rows <= max_rows for one in pieces)
    found = [one for piece in pieces for one in piece.to_pylist()]
    assert found == rows(region[0], list(columns.COLUMNS), 0, 2**63 - 1)


@st.composite
def many_batches(draw: st.DrawFn) -> bytes:
    """So many that they are measured in lock step, and some so long that it ends before them."""
    counts = draw(st.lists(st.integers(0, 3), min_size=100, max_size=130))
    counts[draw(st.integers(0, 99))] = draw(st.integers(0, 30))
    value = draw(st.sampled_from([None, b"", b"v" * 30, b"v" * 100, b"v" * 9000]))
    region = b""
    for number, count in enumerate(counts):
        builder = RecordBatchBuilder(100 * number)
        for index in range(count):
            builder.append(b"%d" % index, value, index, [("h", b"x")] * (index % 3))
        region += builder.build(last_offset=100 * number + 99)
    return region


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(many_batches())
def test_many_batches_are_read_in_lock_step(region: bytes) -> None:
    found = columns.decode_columns(region).to_pylist()
    assert found == rows(region, list(columns.COLUMNS), 0, 2**63 - 1)


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 9), st.integers(1, 120), CHOICES)
def test_garbage_under_a_right_checksum_gives_columns_or_our_error(
    data: bytes, count: int, copies: int, names: list[str]
) -> None:
    batch = bytearray(RecordBatchBuilder().build(last_offset=max(count - 1, 0))) + data
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    region = bytes(batch) * copies
    with contextlib.suppress(InvalidBatchError):
        assert columns.decode_columns(region, names).num_rows == count * copies
