"""Rows as Spark takes them."""

import pytest

pa = pytest.importorskip("pyarrow")

from ottla.sources.rows import RowMaker  # noqa: E402

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
