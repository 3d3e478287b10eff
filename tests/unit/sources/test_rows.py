"""Rows as Spark takes them."""

import pytest

pa = pytest.importorskip("pyarrow")

from ottla.record.rows import RowMaker  # noqa: E402

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SPARKS = pa.schema([("offset", pa.int64()), ("headers", pa.list_(HEADER))])


@pytest.mark.parametrize(("has_null_headers", "none"), [(True, None), (False, [])])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_record_without_headers_has_null_where_sparks_own_source_has_it(
    has_null_headers: bool, none: object, first: int
) -> None:
    """In whichever slice of a batch it stands, and with the buffers' own types or others."""
    given = [[], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], [], []]
    decoded_type = pa.list_(
        pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary())])
    )
    for kind in (decoded_type, SPARKS.field("headers").type):
        decoded = pa.record_batch(
            {"offset": pa.array(range(4), pa.int64()), "headers": pa.array(given, kind)}
        ).slice(first)
        maker = RowMaker("t", 0, SPARKS, has_null_headers=has_null_headers)
        rows = maker.rows(decoded)
        assert rows.schema == SPARKS
        assert rows["headers"].to_pylist() == [one or none for one in given[first:]]
        rows.validate(full=True)


def test_a_timestamp_in_a_year_that_no_date_has_is_null_and_all_others_are_kept() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    given = [1_700_000_000_000_000, 2**63 - 1, -(2**63), last + 1, first - 1]
    there = [0, 1_700_000_000_000, first, last]
    for times in ([*given, *there], there, given, [5], []):
        decoded = pa.record_batch({"timestamp_ms": pa.array(times, pa.int64())})
        schema = pa.schema([("timestamp", pa.timestamp("us", "UTC"))])
        found = RowMaker("t", 0, schema).rows(decoded)["timestamp"]
        shown = found.cast(pa.int64()).to_pylist()
        assert shown == [one * 1000 if one in (*there, 5) else None for one in times]
        assert len(found.to_pylist()) == len(times)
