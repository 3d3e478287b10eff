"""Bounds of columns in a table's log: files that a query cannot need are not read, others are."""

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.columns.partitions import parse_partitioning
from ottla.tables.columns.statistics import (
    LeafStatistics,
    file_statistics,
    shortened,
    shortened_bytes,
)
from ottla.tables.entries import DataFile
from ottla.tables.files.guarantees import guarantee
from ottla.tables.files.parquet_files import ParquetOutput, ParquetStyle
from ottla.tables.formats.delta_entries import statistics_of
from ottla.tables.layout import LayoutOptions
from ottla.tables.stores.local_store import LocalStore
from ottla.tables.values.decoder import Decoding, ValueFormat

SCHEMA = "id bigint, name string, at timestamp, x double, d decimal(9,2), who struct<age: int>"
OF_7 = [
    (pc.field("value", "id") == 7),
    (pc.field("value", "name") == "n007" + "ä" * 40),
    (pc.field("value", "x") == 3.5),
    (pc.field("value", "who", "age") == 7),
    (pc.field("offset") == 7),
]


def value(number: int) -> bytes:
    return json.dumps(
        {
            "id": number,
            "name": f"n{number:03d}" + "ä" * 40,
            "at": f"2026-01-{number + 1:02d}T00:00:00.123456Z",
            "x": number / 2,
            "d": number + 0.25,
            "who": {"age": number},
        }
    ).encode()


def load_files(
    path: Path, into: str, statistics: tuple[str, ...] | None = None, schema: str = SCHEMA
) -> None:
    """Five files of two records each, whose values are in order."""
    decoding = Decoding(format=ValueFormat.JSON, schema=schema)
    options = LoadOptions(layout=LayoutOptions(decoding=decoding, statistics=statistics))
    for number in range(5):
        with ottla.open(path / "log") as log:
            if "orders" not in log.topics():
                log.create_topic("orders")
            for one in (2 * number, 2 * number + 1):
                log.append("orders", value(one))
        load(load_job(LoadRoute(str(path / "log"), "orders", into), LocalEngine(), options=options))


def added(table: str) -> Iterator[dict[str, Any]]:
    """The statistics in the entries of a Delta table's log, in order."""
    for path in sorted(Path(table, "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                yield json.loads(action["add"]["stats"])


@pytest.fixture
def table(tmp_path: Path) -> str:
    load_files(tmp_path, str(tmp_path / "table"))
    return str(tmp_path / "table")


@pytest.mark.slow
def test_readers_skip_files_by_values_in_them(table: str) -> None:
    rows = ottla.table.dataset(table)
    for wanted in OF_7:
        assert len(list(rows.get_fragments(wanted))) == 1
        assert rows.filter(wanted).count_rows() == 1
    after = pc.field("value", "at") > pa.scalar("2026-01-05T12:00:00Z").cast(
        pa.timestamp("us", "UTC")
    )
    assert len(list(rows.get_fragments(after))) == 3
    assert rows.count_rows() == 10
    others = [path for path in rows.files if path != rows.files[3]]
    for path in others:
        Path(path).unlink()
    polars = pytest.importorskip("polars")
    found = polars.scan_delta(table).filter(polars.col("value").struct.field("id") == 7)
    assert found.collect()["offset"].to_list() == [7]
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        seen = connection.from_arrow(rows).filter("value.id = 7").project('"offset"').fetchall()
    assert seen == [(7,)]


@pytest.mark.slow
def test_an_entry_has_what_deltas_writers_say_of_a_file(table: str) -> None:
    *_, last = added(table)
    assert last["minValues"]["value"] == {
        "id": 8,
        "name": "n008" + "ä" * 28,
        "at": "2026-01-09T00:00:00.123Z",
        "x": 4.0,
        "d": 8.25,
        "who": {"age": 8},
    }
    assert last["maxValues"]["value"] == {
        "id": 9,
        "name": "n009" + "ä" * 27 + "å",
        "at": "2026-01-10T00:00:00.124Z",
        "x": 4.5,
        "d": 9.25,
        "who": {"age": 9},
    }
    nulls = {"id": 0, "name": 0, "at": 0, "x": 0, "d": 0, "who": {"age": 0}}
    assert last["nullCount"] == {
        "key": 2,
        "value": nulls,
        "partition": 0,
        "offset": 0,
        "timestamp": 0,
        "timestamp_type": 0,
        "topic": 0,
        "commit_id": 0,
    }


@pytest.mark.slow
def test_named_columns_alone_have_bounds_and_other_writers_are_told(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    load_files(tmp_path, table, ("value.who", "value.name"))
    for one in added(table):
        assert one["minValues"]["value"].keys() == {"who", "name"}
        assert {"partition", "offset", "timestamp"} <= one["minValues"].keys()
    settings = deltalake.DeltaTable(table).metadata().configuration
    named = "partition,offset,timestamp,value.who,value.name"
    assert settings["delta.dataSkippingStatsColumns"] == named
    load_files(tmp_path, table, ("value.id",))
    *_, last = added(table)
    assert last["minValues"]["value"].keys() == {"id"}
    load_files(tmp_path, table)
    *_, last = added(table)
    assert last["minValues"]["value"].keys() == {"id"}
    load_files(tmp_path, table, ())
    *_, last = added(table)
    assert len(last["minValues"]["value"]) == 6


@pytest.mark.parametrize("name", ["value.nothing", "value.id.more", "headers", "value.all"])
def test_a_column_that_can_have_no_bounds_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=rf"--statistics {name}: the table has no such column"):
        load_files(tmp_path, str(tmp_path / "table"), (name,), "id bigint, all array<int>")


def test_the_first_32_leaves_have_bounds_and_the_place_of_a_row_always(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(40)]
    schema = ", ".join(f"{name} bigint" for name in names)
    decoding = Decoding(format=ValueFormat.JSON, schema=schema)
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        log.append("orders", json.dumps(dict.fromkeys(names, 1)).encode(), key=b"k")
    into = str(tmp_path / "table")
    options = LoadOptions(layout=LayoutOptions(decoding=decoding))
    place = LoadRoute(str(tmp_path / "log"), "orders", into)
    load(load_job(place, LocalEngine(), options=options))
    (found,) = added(into)
    assert list(found["minValues"]["value"]) == names[:31]
    assert found["minValues"].keys() == {"value", "partition", "offset", "timestamp"}


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(),
            st.none() | st.text(max_size=3),
            st.none() | st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=6,
        min_size=1,
    ),
    st.integers(1, 3),
)
def test_no_file_is_skipped_that_has_a_row_that_is_asked_for(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], group: int
) -> None:
    schema = pa.schema(
        [("v", pa.struct([("x", pa.float64()), ("s", pa.string()), ("n", pa.int64())]))]
    )
    store = LocalStore(str(tmp_path_factory.mktemp("store")))
    values = [{"v": dict(zip("xsn", row, strict=True))} for row in rows]
    with ParquetOutput(store, "one.parquet", ParquetStyle()) as output:
        for first in range(0, len(values), group):
            batch = pa.RecordBatch.from_pylist(values[first : first + group], schema)
            output.write(batch, first)
    known = file_statistics(parquet.read_metadata(store.arrow_path("one.parquet")))
    holds = guarantee(schema, {}, known)
    form = pa.dataset.ParquetFileFormat()
    fragment = form.make_fragment(store.arrow_path("one.parquet"), store.arrow(), holds)
    found = pa.dataset.FileSystemDataset([fragment], schema, form, store.arrow())
    for x, s, n in rows:
        for name, one in (("x", x), ("s", s), ("n", n)):
            field = pc.field("v", name)
            wanted = field.is_null() if one is None else field == one
            if isinstance(one, float) and math.isnan(one):
                # Arrow itself skips row groups for is_nan where another value has bounds.
                assert list(found.get_fragments(filter=pc.is_nan(field)))
                continue
            assert found.filter(wanted).count_rows() >= 1


def test_shortened_bounds_hold_what_they_are_of() -> None:
    assert shortened(("ab", "ab"), 2) == ("ab", "ab")
    assert shortened(("abc", "abc"), 2) == ("ab", "ac")
    assert shortened(("a", "a\ud7ffx"), 2) == ("a", "a\ue000")
    assert shortened(("a", "\U0010ffff" * 3), 2) is None
    assert shortened(("a", "a\U0010ffffb"), 2) == ("a", "b")
    assert shortened_bytes((b"abc", b"a\xff\xff"), 2) == (b"ab", b"b")
    assert shortened_bytes((b"a", b"\xff\xff\xff"), 2) is None


@given(st.integers(-(10**37), 10**37).map(lambda digits: Decimal(f"{digits}e-10")))
@example(Decimal("12.34"))
@example(Decimal("9999999999999.9999999999"))
@example(Decimal("-0.0000000001"))
def test_bounds_of_decimals_hold_them_also_for_readers_of_floats(number: Decimal) -> None:
    known = {("d",): LeafStatistics(null_count=0, bounds=(number, number))}
    file = DataFile(
        path="one.parquet",
        size=1,
        row_count=1,
        partition=0,
        first_offset=0,
        last_offset=0,
        statistics=known,
    )
    text = statistics_of([file])
    exact = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    if "d" not in exact["minValues"]:
        assert len(number.as_tuple().digits) > 15
        return
    assert re.search(r"\d[eE]", text) is None
    lowest, highest = exact["minValues"]["d"], exact["maxValues"]["d"]
    assert lowest <= number <= highest
    if len(number.as_tuple().digits) < 16 and abs(number) > Decimal("0.001"):
        assert lowest == number == highest
    elif lowest == lowest.to_integral_value():
        assert Decimal(float(lowest)) <= number <= Decimal(float(highest))


@pytest.mark.slow
def test_other_readers_find_rows_by_values_that_json_has_no_short_form_for(tmp_path: Path) -> None:
    kinds = {
        "d": "decimal(12,3)",
        "wide": "decimal(38,10)",
        "at": "timestamp",
        "is_new": "boolean",
    }
    decoding = Decoding(format=ValueFormat.JSON, schema=", ".join(map(" ".join, kinds.items())))
    layout = LayoutOptions(decoding=decoding, is_flat=True)
    table = str(tmp_path / "table")
    values = ["12.34", "-0.001", "999999999.999", "-999999999.999", "0.1"]
    wide, end = "123456789012345678.0123456789", datetime.max.replace(tzinfo=UTC)
    value = '{"d": D, "wide": %s, "at": "%s", "is_new": true}'
    value %= (wide, end.isoformat())
    for one in values:
        with ottla.open(tmp_path / "log") as log:
            log.create_topic("orders", exist_ok=True)
            log.append("orders", value.replace("D", one).encode())
        place = LoadRoute(str(tmp_path / "log"), "orders", table)
        load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout)))
    theirs = deltalake.DeltaTable(table).to_pyarrow_dataset()
    for rows in (ottla.table.dataset(table), theirs):
        for one in values:
            wanted = pc.field("d") == pa.scalar(Decimal(one), pa.decimal128(12, 3))
            # deltalake makes no use of bounds below zero.
            assert rows is theirs or len(list(rows.get_fragments(wanted))) == 1
            assert rows.to_table(filter=wanted).num_rows == 1
        wanted = pc.field("wide") == pa.scalar(Decimal(wide), pa.decimal128(38, 10))
        assert rows.to_table(filter=wanted).num_rows == 5
        wanted = pc.field("wide") > pa.scalar(Decimal(2 * 10**17), pa.decimal128(38, 10))
        assert len(list(rows.get_fragments(wanted))) == 0
        for name, held in (("at", end), ("is_new", True)):
            assert rows.to_table(filter=pc.field(name) == held).num_rows == 5
        assert len(list(rows.get_fragments(pc.field("is_new") == pa.scalar(False)))) == 0
    polars = pytest.importorskip("polars")
    found = polars.scan_delta(table).filter(polars.col("d") == Decimal("12.34"))
    assert found.collect()["_offset"].to_list() == [0]


@pytest.mark.slow
def test_other_readers_find_rows_by_texts_beyond_the_planes_that_they_read_escaped(
    tmp_path: Path,
) -> None:
    """arrow-rs joins the halves of an escaped character beyond U+1FFFF wrongly."""
    decoding = Decoding(format=ValueFormat.JSON, schema="name string, town string")
    by = parse_partitioning("town")
    layout = LayoutOptions(decoding=decoding, is_flat=True, partitioning=by)
    table = str(tmp_path / "table")
    names = ["\U00020bb7", "\U0001f600" * 40, "\U0010ffff" + "a" * 40]
    place = LoadRoute(str(tmp_path / "log"), "orders", table)
    for name in names:
        with ottla.open(tmp_path / "log") as log:
            log.create_topic("orders", exist_ok=True)
            log.append("orders", json.dumps({"name": name, "town": name[:3]}).encode())
        load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout)))
    theirs = deltalake.DeltaTable(table).to_pyarrow_dataset()
    polars = pytest.importorskip("polars")
    for rows in (ottla.table.dataset(table), theirs):
        for name in names:
            assert rows.to_table(filter=pc.field("name") == name).num_rows == 1
            assert rows.to_table(filter=pc.field("town_part") == name[:3]).num_rows == 1
    for number, name in enumerate(names):
        for column, wanted in (("name", name), ("town_part", name[:3])):
            found = polars.scan_delta(table).filter(polars.col(column) == wanted)
            assert found.collect()["_offset"].to_list() == [number]
