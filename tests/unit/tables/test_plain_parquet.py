"""Files that other engines rewrote, in the types of our own."""

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from ottla.tables.files.plain_parquet import PlainParquetFile  # noqa: E402


def test_views_and_large_types_are_read_as_plain_ones_at_any_depth(tmp_path: Path) -> None:
    inner = pa.struct([("a", pa.string_view()), ("b", pa.large_list(pa.binary_view()))])
    plain = pa.struct([("a", pa.string()), ("b", pa.list_(pa.binary()))])
    rows = [{"a": "x", "b": [b"1", None]}, None]
    table = pa.table(
        {
            "k": pa.array([b"k", None], pa.binary_view()),
            "s": pa.array(rows, inner),
            "l": pa.array([["a"], None], pa.large_list(pa.large_string())),
            "n": [1, 2],
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    types = [pa.binary(), plain, pa.list_(pa.string()), pa.int64()]
    with PlainParquetFile(path) as opened:
        (batch,) = opened.iter_batches()
        for found in (batch, opened.read_row_group(0), opened.read_row_groups([0])):
            assert [one.equals(two) for one, two in zip(found.schema.types, types, strict=True)]
            assert found.to_pylist() == table.to_pylist()
        assert opened.schema_arrow.types == batch.schema.types
