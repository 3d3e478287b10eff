"""Flat tables: fields of values as columns, selected, renamed, cast, in all that tables do."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.flat import as_read, flat_rows, flat_schema, is_flat, with_struct
from ottla.tables.columns.identity import Upsert, row_order
from ottla.tables.columns.partitions import parse_partitioning, placed
from ottla.tables.columns.rows import row_columns
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoded, Decoding, ValueFormat
from ottla.tables.values.projection import ProjectedDecoder, Projection, continued
from ottla.tables.values.schema import parse_schema
from ottla.tables.writing.record_writer import OnError

JSON = Decoding(
    format=ValueFormat.JSON, schema="id int, at string, who struct<name: string>", is_rescuing=True
)
OWN = ["_key", "_partition", "_offset", "_timestamp", "_timestamp_type", "_headers"]
OWN += ["_topic", "_commit_id"]


class Orders:
    def __init__(self, path: Path, into: str | None = None, **layout: Any) -> None:
        self.log, self.table = str(path / "log"), into or str(path / "table")
        self._layout = LayoutOptions(**{"decoding": JSON, "is_flat": True, **layout})
        with ottla.open(self.log) as log:
            if "orders" not in log.topics():
                log.create_topic("orders")

    def job(self, **layout: Any) -> LoadJob:
        asked = LayoutOptions(**layout) if layout else self._layout
        options = LoadOptions(layout=asked, on_error=OnError.QUARANTINE)
        place = LoadRoute(self.log, "orders", self.table)
        return load_job(place, LocalEngine(), options=options)

    def load(self, *values: Any, **layout: Any) -> LoadReport:
        with ottla.open(self.log) as log:
            for number, value in enumerate(values):
                plain = None if value is None else json.dumps(value).encode()
                log.append("orders", plain, key=b"k%d" % (number % 3))
        return load(self.job(**layout))

    def assert_whole(self) -> None:
        log = open_log(topic_options(self.log, "orders"))
        assert audit(Table(self.table), log, "orders", compare_all=True).differences == []

    def rows(self) -> list[dict[str, Any]]:
        rows = ottla.table.dataset(self.table).to_table().to_pylist()
        return sorted(rows, key=lambda row: row["_offset"])


def order(number: int) -> dict[str, Any]:
    at = f"2026-01-{1 + number % 28:02d}T00:00:00Z"
    return {"id": number, "at": at, "who": {"name": f"n{number}"}, "more": number}


@pytest.mark.slow
@pytest.mark.parametrize("is_latest", [False, True])
def test_a_flat_table_goes_through_all_that_tables_do(tmp_path: Path, is_latest: bool) -> None:
    upsert = Upsert() if is_latest else None
    orders = Orders(tmp_path, upsert=upsert, partitioning=parse_partitioning("id"))
    report = orders.load(*map(order, range(4)), {"id": "wrong"}, None, {})
    assert report.quarantined_count == 1
    orders.load(*map(order, range(3, 6)))
    assert list(orders.rows()[0]) == ["id", "at", "who", "_rescued", *OWN, "id_part"]
    optimize(orders.table, LocalEngine())
    optimize(orders.table, LocalEngine(), options=OptimizeOptions(sort_by=SortColumn.KEY))
    orders.assert_whole()
    if not is_latest:
        rerun(orders.job(), rerun_range("2", "5", "orders"))
    grown = "id bigint, at string, who struct<name: string, age: int>, more int"
    orders.load(order(7), decoding=replace(JSON, schema=grown))
    orders.assert_whole()
    vacuum(orders.table, SystemClock(), retention_ms=0)
    delta = deltalake.DeltaTable(orders.table)
    delta.optimize.compact()
    orders.load(order(8), decoding=replace(JSON, schema=grown))
    orders.assert_whole()
    rows = orders.rows()
    assert rows[-1]["more"] == 8
    assert {row["_rescued"] for row in rows[:2]} != {None}
    polars = pytest.importorskip("polars")
    found = polars.scan_delta(orders.table).filter(polars.col("id") == 8).collect()
    assert found["_offset"].to_list() == [rows[-1]["_offset"]]
    of_8 = pc.field("id") == 8
    found = ottla.table.dataset(orders.table)
    assert len(list(found.get_fragments(of_8))) < len(found.files)


@pytest.mark.slow
def test_a_flat_table_of_iceberg_is_partitioned_by_its_own_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    by = parse_partitioning("id, day(at), day(_timestamp)")
    orders = Orders(
        tmp_path,
        "iceberg://lake/shop.orders",
        partitioning=by,
        projection=Projection(cast="at timestamp"),
    )
    orders.load(order(1), order(2))
    orders.load(order(3), {"id": 4, "at": "never"})
    rerun(orders.job(), rerun_range("1", None, "orders"))
    orders.assert_whole()
    from pyiceberg.catalog import load_catalog

    directory = tmp_path / ".local/share/ottla/iceberg/lake"
    table = load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{directory}/catalog.db",
        warehouse=f"file://{directory}",
    ).load_table("shop.orders")
    assert [one.name for one in table.spec().fields] == ["id", "at_day", "timestamp_day"]
    assert len(list(table.scan(row_filter="id = 2").plan_files())) == 1
    late = table.scan(row_filter="at > '2026-01-03T12:00:00+00:00'")
    assert late.to_arrow()["id"].to_pylist() == [3]
    aside = max(directory.rglob("quarantine/*/*.parquet"))
    (reason,) = parquet.read_table(aside)["reason"].to_pylist()
    assert "at is no timestamp" in reason


def test_fields_are_selected_renamed_and_cast_and_a_clash_is_refused_with_the_mend(
    tmp_path: Path,
) -> None:
    projection = Projection(
        select=("at", "who.name", "id"), rename=(("id", "order_id"),), cast="order_id bigint"
    )
    orders = Orders(tmp_path, projection=projection)
    orders.load(order(1))
    (row,) = orders.rows()
    assert [name for name in row if name[0] != "_"] == ["at", "name", "order_id"]
    assert (row["name"], row["order_id"]) == ("n1", 1)
    more = replace(projection, select=(*projection.select, "who"))
    orders.load(order(2), projection=more)
    assert orders.rows()[1]["who"] == {"name": "n2"}
    orders.assert_whole()
    with pytest.raises(UserError, match=r"value\.name is gone"):
        orders.load(order(3), projection=Projection(select=("at",)))
    with pytest.raises(UserError, match="loaded with --columns flat, which cannot change"):
        orders.load(order(3), is_flat=False)


@pytest.mark.slow
def test_what_grows_into_a_flat_table_can_be_renamed_in_the_same_load(tmp_path: Path) -> None:
    inferred = Decoding(format=ValueFormat.JSON, schema="")
    first = Projection(rename=(("id", "order_id"),), cast="order_id decimal(9,2)")
    orders = Orders(tmp_path, decoding=inferred, projection=first)
    orders.load({"id": 1})
    with pytest.raises(UserError, match="--rename _offset=offset_value"):
        orders.load({"id": 2, "_offset": 7, "at": 1}, projection=None, is_growing=True)
    more = Projection(rename=(("_offset", "offset_value"),), cast="at string")
    orders.load({"id": 3}, projection=more, is_growing=True)
    orders.load({"id": 4, "_offset": 8})
    orders.assert_whole()
    found = [(row["order_id"], row["offset_value"], row["at"]) for row in orders.rows()]
    assert found == [(1, None, None), (2, 7, "1"), (3, None, None), (4, 8, None)]


@pytest.mark.slow
@pytest.mark.parametrize(("by", "clash"), [("truncate(10, id)", "id_trunc_10"), ("day", "day")])
@pytest.mark.parametrize("is_delta", [True, False])
def test_a_field_with_the_name_of_a_partition_is_refused_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, clash: str, is_delta: bool
) -> None:
    if not is_delta:
        pytest.importorskip("pyiceberg")
        monkeypatch.setenv("HOME", str(tmp_path))
        clash = {"day": "timestamp_day"}.get(clash, clash)
    orders = Orders(
        tmp_path,
        None if is_delta else "iceberg://lake/shop.orders",
        decoding=Decoding(format=ValueFormat.JSON, schema=""),
        partitioning=parse_partitioning(by),
    )
    orders.load({"id": 11})
    with pytest.raises(UserError, match=f"--rename {clash}={clash}_value"):
        orders.load({"id": 12, clash: 7}, is_growing=True)
    renamed = Projection(rename=((clash, f"{clash}_value"),))
    orders.load({"id": 13}, projection=renamed, is_growing=True)
    assert [row[f"{clash}_value"] for row in orders.rows()] == [None, 7, None]
    orders.assert_whole()


@pytest.mark.parametrize(
    ("projection", "words"),
    [
        (
            Projection(select=("who.age",)),
            "--select who.age: there is no field age; there are",
        ),
        (Projection(select=("id.more",)), "there is no field more; what it is in has no fields"),
        (Projection(rename=(("nope", "x"),)), "--rename nope: there is no such column"),
        (Projection(cast="nope int"), "--cast nope: there is no such column"),
        (Projection(rename=(("id", "AT"),)), "--rename at=at_2"),
        (Projection(cast="who int"), "--cast who int: struct<name: string> cannot be cast so"),
        (
            Projection(rename=(("id", "_offset"),)),
            "--columns flat: values have a field _offset, which is the name of a column of its "
            "own; rename it: --rename _offset=offset_value",
        ),
    ],
)
def test_a_wrong_projection_is_refused_by_its_field(
    tmp_path: Path, projection: Projection, words: str
) -> None:
    with pytest.raises(UserError) as refused:
        Orders(tmp_path, projection=projection).load(order(1))
    assert words in str(refused.value)
    assert not (tmp_path / "table").exists() or not Table(str(tmp_path / "table")).is_there()


def test_raw_values_cannot_be_flat(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="makes columns of the fields of decoded values"):
        Orders(tmp_path, decoding=None).load(order(1))


class Given:
    def __init__(self, rows: Any) -> None:
        self._rows = rows

    @property
    def type(self) -> Any:
        return self._rows.type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        return Decoded(self._rows, {})


def test_values_that_cannot_be_cast_are_faults_and_others_are_not() -> None:
    texts = ["1", "x", None, "3", "4.5", "6", "y"]
    rows = pa.array([{"n": one} for one in texts] + [None], parse_schema("n string"))
    found = ProjectedDecoder(Given(rows), Projection(cast="n int")).decode(None)
    assert found.rows.to_pylist() == [
        *({"n": one} for one in (1, None, None, 3, None, 6, None)),
        None,
    ]
    assert sorted(found.faults) == [1, 4, 6]
    assert found.faults[1].startswith("value.n is no int: ")


def test_texts_become_times_as_in_values_of_json() -> None:
    texts = ["2026-01-31T13:00:00.123456789Z", "1969-12-31t23:59:59.9999999+02:00", "never", None]
    rows = pa.array([{"at": one} for one in texts], parse_schema("at string"))
    found = ProjectedDecoder(Given(rows), Projection(cast="at timestamp")).decode(None)
    seen = [row["at"] and row["at"].isoformat() for row in found.rows.to_pylist()]
    assert seen == [
        "2026-01-31T13:00:00.123456+00:00",
        "1969-12-31T21:59:59.999999+00:00",
        None,
        None,
    ]
    assert list(found.faults) == [2]


def test_a_field_with_a_dot_in_its_name_is_selected_and_renamed() -> None:
    kind = parse_schema("`a.b` int, a struct<c: int>")
    rows = pa.array([{"a.b": 1, "a": {"c": 2}}], kind)
    projection = Projection(select=("a.c", "a.b"), rename=(("a.b", "b"),))
    found = ProjectedDecoder(Given(rows), projection).decode(None)
    assert found.rows.to_pylist() == [{"c": 2, "b": 1}]
    columns = row_columns({"value": kind})
    for flat, key in ((True, "a.b"), (False, "value.a.b")):
        with pytest.raises(UserError, match=r"cannot be named here; use --rename a\.b=a_b"):
            row_order(Upsert(key=(key,)), columns, is_flat=flat)


def test_a_wrong_name_is_that_of_this_load_though_one_of_an_earlier_load_is_gone_too() -> None:
    had = Projection(rename=(("id", "order_id"),), cast="order_id bigint")
    rows = pa.array([{"at": 1}], parse_schema("at int"))
    for asked, words in (
        (Projection(rename=(("nope", "x"),)), "--rename nope: there is no such column"),
        (Projection(rename=(("id", "order_id"), ("no", "y"))), "--rename no: there is no such"),
    ):
        with pytest.raises(UserError, match=words):
            ProjectedDecoder(Given(rows), continued(had, asked) or had)


@pytest.mark.parametrize(
    ("kind", "values", "cast", "expected"),
    [
        ("bigint", [12, -(2**62), 9_999_999, 10_000_000], "decimal(9,2)", ["12", None, "9999999"]),
        ("int", [12, 1000], "decimal(3,0)", ["12", None]),
        ("double", [12.5, 0.1, 1.25, 1e300, -0.0], "decimal(9,1)", ["12.5", "0.1", None, None, 0]),
        ("double", [math.nan, math.inf, 1e16, None], "decimal(20,0)", [None, None, 10**16, None]),
    ],
)
def test_numbers_become_decimals_if_all_of_their_digits_have_room(
    kind: str, values: list[Any], cast: str, expected: list[Any]
) -> None:
    rows = pa.array([{"n": one} for one in values], parse_schema(f"n {kind}"))
    found = ProjectedDecoder(Given(rows), Projection(cast=f"n {cast}")).decode(None)
    seen = [row["n"] for row in found.rows.to_pylist()]
    wanted = [None if one is None else Decimal(one) for one in expected]
    assert seen[: len(wanted)] == wanted
    faults = {index for index, one in enumerate(seen) if one is None and values[index] is not None}
    assert set(found.faults) == faults


def test_flat_rows_are_read_as_they_were_but_for_values_without_any_field() -> None:
    schema = row_columns({"value": pa.struct([("partition", pa.string()), ("n", pa.int32())])})
    values = [{"partition": "x", "n": 1}, None, {"partition": None, "n": 2}, {}]
    rows = pa.RecordBatch.from_pylist([{"value": one, "offset": 1} for one in values], schema)
    flat = flat_rows(rows)
    assert flat.schema.names[:3] == ["partition", "n", "_key"]
    assert is_flat(flat.schema.names)
    back = with_struct(flat)
    assert back.column("value").to_pylist() == [*values[:3], None]
    assert back.column("value").equals(as_read(rows.column("value")))
    assert sorted(back.schema.names) == sorted(schema.names)
    only = with_struct(flat.select(["_offset"]), ["offset"])
    assert only.to_pydict() == {"offset": [1] * 4}


ROWS = row_columns(
    {
        "key": parse_schema("id bigint"),
        "value": parse_schema("id bigint, timestamp bigint, topic string, offset bigint"),
    }
)


@pytest.mark.parametrize(
    ("key", "version", "found"),
    [
        ("id", "_timestamp", (("value", "id"), ("timestamp",))),
        ("_key.id", "value.timestamp", (("key", "id"), ("value", "timestamp"))),
        ("key.id", "partition", (("key", "id"), ("partition",))),
    ],
)
def test_rows_are_told_apart_by_the_names_of_columns(key: str, version: str, found: Any) -> None:
    order = row_order(Upsert(key=(key,), version=version), ROWS, is_flat=True)
    assert (order.key[0], order.version) == found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timestamp", "write _timestamp or value.timestamp, or --rename that of the value"),
        ("offset", "write _offset or value.offset"),
        ("_nothing", "the table has no such column"),
    ],
)
def test_a_name_that_the_record_and_its_value_have_is_refused(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        row_order(Upsert(key=("id",), version=name), ROWS, is_flat=True)


def test_a_flat_table_is_partitioned_by_its_own_column_of_a_name() -> None:
    names = flat_schema(ROWS).names
    for text, column in (
        ("topic", "value.topic"),
        ("bucket(4, _topic)", "topic"),
        ("day", "timestamp"),
    ):
        by = placed(parse_partitioning(text), ROWS, is_spec=True, names=names)
        assert [one.column for one in by.fields] == [column]
