"""Partitions by columns and transforms: what they may be of, and which directory a row is in."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.flat import flat_schema
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import (
    NULL_DIRECTORY,
    Partitioning,
    parse_partitioning,
    parse_partitioning_fields,
    parted,
    partitioning_fields,
    placed,
)
from ottla.tables.columns.rows import row_columns
from ottla.tables.files.parquet_files import directory_values, values_in
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat

VALUE = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("country", pa.string()),
        ("born", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("is_new", pa.bool_()),
        ("x", pa.float64()),
        ("price", pa.decimal128(9, 3)),
        ("wide", pa.decimal128(38, 0)),
        ("offset", pa.int64()),
    ]
)
ROWS = row_columns({"value": VALUE})


@pytest.mark.parametrize(
    ("text", "delta", "iceberg"),
    [
        ("day", ["day"], ["timestamp_day"]),
        ("hour", ["day", "hour"], ["timestamp_hour"]),
        ("month(value.at)", ["month"], ["at_month"]),
        ("value.country, day", ["country", "day"], ["country", "timestamp_day"]),
        ("bucket(16, value.id)", ["id_bucket_16"], ["id_bucket_16"]),
        ("truncate( 4,value.country )", ["country_trunc_4"], ["country_trunc_4"]),
        ("value.offset", ["value_offset"], ["value_offset"]),
    ],
)
def test_fields_have_names_that_no_column_has(
    text: str, delta: list[str], iceberg: list[str]
) -> None:
    for names, is_spec in ((delta, False), (iceberg, True)):
        found = placed(parse_partitioning(text), ROWS, is_spec=is_spec)
        assert found.names == names
        assert parse_partitioning_fields(partitioning_fields(found)) == found
        assert placed(parse_partitioning(found.text), ROWS, is_spec=is_spec) == found


def test_a_unit_alone_is_of_the_field_that_is_named_beside_it() -> None:
    (found,) = parse_partitioning("hour", "value.at").fields
    assert found.text == "hour(value.at)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bucket(value.id)",
        "day(3, value.at)",
        "nope(value.id)",
        "a,,b",
        "bucket(0, value.id)",
        "(",
    ],
)
def test_what_is_no_partitioning_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UserError, match=r"name columns and transforms, such as day, value.country"):
        parse_partitioning(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("value.x", "bigint, decimal, date, timestamp or string column, and value.x is double"),
        ("value.nothing", "value.nothing: the table has no such column; it has key, value.id, "),
        ("headers", "takes a boolean"),
        ("key.more", "key.more: the table has no such column"),
        ("day(value.nothing)", "day(value.nothing): the table has no such column"),
        ("day(value.id)", "takes a timestamp or date column, and value.id is int64"),
        ("hour(value.born)", "takes a timestamp column, and value.born is date"),
        ("truncate(2, value.born)", "takes a int, bigint, decimal or string column"),
        ("truncate(2, value.born)", "use day(value.born), or month or year of it"),
        ("day, day(value.at)", "two directories would be named day"),
        ("partition", "the table has a column partition already"),
        ("value.country, value.country", "two directories would be named country"),
        ("truncate(2, value.at)", "use day(value.at), or month or year of it"),
        ("value.x", "name a column of such a type"),
    ],
)
def test_a_column_that_cannot_partition_is_refused_by_its_name(text: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        placed(parse_partitioning(text), ROWS, is_spec=False)
    assert words in str(refused.value)


def test_a_column_that_a_flat_table_lacks_is_named_as_it_was_asked_for() -> None:
    names = flat_schema(ROWS).names
    with pytest.raises(UserError, match=r"-by day\(nothing\): the table .* it has _key, id, "):
        placed(parse_partitioning("day(nothing)"), ROWS, is_spec=True, names=names)


def rows_of(*values: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"value": value} for value in values], ROWS)


def directories(text: str, *values: dict[str, Any]) -> list[str]:
    by = placed(parse_partitioning(text), ROWS, is_spec=True)
    found = {}
    for name, some in parted(rows_of(*values), by):
        for row in some.to_pylist():
            found[json.dumps(row["value"], default=str)] = name
    kept = [row["value"] for row in rows_of(*values).to_pylist()]
    return [found[json.dumps(one, default=str)] for one in kept]


def test_a_row_is_in_the_directory_of_its_values() -> None:
    at = datetime(2026, 1, 31, 13, 5, tzinfo=UTC)
    assert directories("hour(value.at), value.country", {"at": at, "country": "DE"}, {}) == [
        "at_hour=2026-01-31-13/country=DE",
        "at_hour=__HIVE_DEFAULT_PARTITION__/country=__HIVE_DEFAULT_PARTITION__",
    ]
    assert directories("value.country", {"country": "a/b=c ä"}) == ["country=a%2Fb%3Dc%20%C3%A4"]
    assert directories("truncate(10, value.id)", {"id": -1}, {"id": 19}) == [
        "id_trunc_10=-10",
        "id_trunc_10=10",
    ]
    assert directories("value.is_new, value.born", {"is_new": True, "born": date(2026, 1, 1)}) == [
        "is_new=true/born=2026-01-01"
    ]


def test_a_value_that_no_directory_can_be_named_by_is_refused_with_the_mend() -> None:
    with pytest.raises(UserError, match=r"partition by truncate\(16, \.\.\.\) of it"):
        directories("value.country", {"country": "x" * 200})
    # Delta's and Iceberg's libraries cannot read a table in which a number has no room.
    for column, least in (("id", -(2**63)), ("small", -(2**31))):
        text = f"truncate(10, value.{column})"
        with pytest.raises(UserError, match=r"no multiple of 10 below .*; partition by bucket\(16"):
            directories(text, {column: least})
        assert directories(text, {column: least + 8})
    with pytest.raises(UserError, match="no multiple of 10 below"):
        directories("truncate(10, value.wide)", {"wide": Decimal("-" + "9" * 38)})


def test_decimals_and_times_are_written_in_full() -> None:
    row = {"price": Decimal("-0.001"), "at": datetime(1, 1, 2, tzinfo=UTC)}
    assert directories("value.price, value.at", row) == [
        "price=-0.001/at=0001-01-02T00%3A00%3A00.000000Z"
    ]
    assert directories("truncate(10, value.price)", row) == ["price_trunc_10=-0.010"]
    # Iceberg's specification says the hash of 14.20.
    hashed = (-500754589 & (2**31 - 1)) % 1000
    price = pa.array([Decimal("14.20")], pa.decimal128(9, 2))
    rows = row_columns({"value": pa.struct([("price", price.type)])})
    by = placed(parse_partitioning("bucket(1000, value.price)"), rows, is_spec=True)
    batch = pa.RecordBatch.from_pylist([{"value": {"price": price[0].as_py()}}], rows)
    assert [name for name, _ in parted(batch, by)] == [f"price_bucket_1000={hashed}"]


@given(st.text(max_size=40))
@example("__HIVE_DEFAULT_PARTITION__")
def test_a_directory_gives_the_value_back(text: str) -> None:
    try:
        (name,) = directories("value.country", {"country": text})
    except UserError:
        assert len(text.encode()) > 45
        return
    assert name.isascii()
    assert not set(name) & set("/?# ")
    assert values_in(f"data/load/{name}/part.parquet") == {"country": text}


def test_an_empty_text_is_null_in_deltas_directories_alone() -> None:
    for is_spec, expected in ((True, {"country="}), (False, {f"country={NULL_DIRECTORY}"})):
        by = placed(parse_partitioning("value.country"), ROWS, is_spec=is_spec)
        rows = rows_of({"country": ""}, {"country": None})
        names = {name for name, _ in parted(rows, by)}
        assert names == {*expected, f"country={NULL_DIRECTORY}"}


@pytest.mark.slow
@pytest.mark.parametrize("address", ["delta", "iceberg://lake/shop.orders"])
def test_a_text_that_reads_like_nulls_directory_is_no_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    is_delta = not address.startswith("iceberg")
    if not is_delta:
        pytest.importorskip("pyiceberg")
        monkeypatch.setenv("HOME", str(tmp_path))
    countries = ["", NULL_DIRECTORY, None]
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        for country in countries:
            log.append("orders", json.dumps({"country": country}).encode())
    layout = LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="country string"),
        partitioning=parse_partitioning("country"),
        is_flat=True,
    )
    table = str(tmp_path / "table") if is_delta else address
    place = LoadRoute(str(tmp_path / "log"), "orders", table)
    load(load_job(place, LocalEngine(), options=LoadOptions(layout=layout)))
    rows = ottla.table.dataset(table).to_table().sort_by("_offset")
    assert rows["country"].to_pylist() == countries
    if is_delta:
        assert rows["country_part"].to_pylist() == [None, NULL_DIRECTORY, None]
        theirs = deltalake.DeltaTable(table).to_pyarrow_dataset().to_table().sort_by("_offset")
        assert theirs["country_part"].to_pylist() == [None, NULL_DIRECTORY, None]
    else:
        found = ottla.table.dataset(table).filter(pc.field("country") == NULL_DIRECTORY)
        assert found.count_rows() == 1


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=8),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.integers(1, 40),
    st.integers(1 - 10**38 + 40, 10**38 - 1),
)
def test_transforms_are_icebergs(
    number: int, text: str, at: datetime, width: int, digits: int
) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg import transforms
    from pyiceberg.types import DateType, DecimalType, LongType, StringType, TimestamptzType

    from ottla.tables.formats.iceberg import partition_value

    time = at.replace(tzinfo=UTC)
    micros = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    wide, whole = Decimal(digits), DecimalType(38, 0)
    row = {"id": number, "country": text, "at": time, "wide": wide, "born": at.date()}
    days = (at.date() - date(1970, 1, 1)).days
    small = max(number, -(2**63) + width)
    for term, transform, kind, value in (
        (f"bucket({width}, value.id)", transforms.BucketTransform(width), LongType(), number),
        (f"bucket({width}, value.country)", transforms.BucketTransform(width), StringType(), text),
        (
            f"bucket({width}, value.at)",
            transforms.BucketTransform(width),
            TimestamptzType(),
            micros,
        ),
        (f"truncate({width}, value.id)", transforms.TruncateTransform(width), LongType(), small),
        (
            f"truncate({width}, value.country)",
            transforms.TruncateTransform(width),
            StringType(),
            text,
        ),
        ("year(value.at)", transforms.YearTransform(), TimestamptzType(), micros),
        ("month(value.at)", transforms.MonthTransform(), TimestamptzType(), micros),
        ("day(value.at)", transforms.DayTransform(), TimestamptzType(), micros),
        ("hour(value.at)", transforms.HourTransform(), TimestamptzType(), micros),
        ("value.at", transforms.IdentityTransform(), TimestamptzType(), micros),
        ("year(value.born)", transforms.YearTransform(), DateType(), days),
        ("month(value.born)", transforms.MonthTransform(), DateType(), days),
        ("day(value.born)", transforms.DayTransform(), DateType(), days),
        ("value.wide", transforms.IdentityTransform(), whole, wide),
        (f"bucket({width}, value.wide)", transforms.BucketTransform(width), whole, wide),
        (f"truncate({width}, value.wide)", transforms.TruncateTransform(width), whole, wide),
    ):
        (name,) = directories(term, {**row, "id": small if "truncate" in term else number})
        (found,) = directory_values(f"data/{name}/part.parquet").values()
        expected = transform.transform(kind)(value)
        assert partition_value(transform, kind, found) == expected, term


class Orders:
    """A log of orders from two countries, and its table."""

    def __init__(self, path: Path, by: str, **options: Any) -> None:
        self.log, self.table = str(path / "log"), str(path / "table")
        self._options = LoadOptions(
            layout=LayoutOptions(
                decoding=Decoding(format=ValueFormat.JSON, schema="id bigint, country string"),
                partitioning=parse_partitioning(by),
                **options,
            )
        )
        with ottla.open(self.log) as log:
            log.create_topic("orders")

    def job(self) -> LoadJob:
        place = LoadRoute(self.log, "orders", self.table)
        return load_job(place, LocalEngine(), options=self._options)

    def load(self, *numbers: int) -> None:
        with ottla.open(self.log) as log:
            for number in numbers:
                country = None if number % 5 == 4 else ("DE", "a b/ä")[number % 2]
                value = json.dumps({"id": number, "country": country}).encode()
                log.append("orders", value, key=b"k%d" % (number % 3))
        load(self.job())

    def assert_whole(self) -> None:
        log = open_log(topic_options(self.log, "orders"))
        assert audit(Table(self.table), log, "orders", compare_all=True).differences == []


@pytest.mark.slow
@pytest.mark.parametrize("is_latest", [False, True])
def test_a_delta_table_has_the_columns_that_its_files_lie_by(
    tmp_path: Path, is_latest: bool
) -> None:
    by = "value.country, bucket(4, value.id), truncate(10, value.id)"
    orders = Orders(tmp_path, by, upsert=Upsert() if is_latest else None)
    orders.load(*range(10))
    orders.load(*range(10, 14))
    optimize(orders.table, LocalEngine())
    if not is_latest:
        rerun(orders.job(), rerun_range("3", "6", "orders"))
    orders.load(14)
    orders.assert_whole()
    vacuum(orders.table, SystemClock(), retention_ms=0)
    orders.assert_whole()
    delta = deltalake.DeltaTable(orders.table)
    names = ["country", "id_bucket_4", "id_trunc_10"]
    assert delta.metadata().partition_columns == names
    ours = ottla.table.dataset(orders.table)
    for rows in (delta.to_pyarrow_dataset().to_table(), ours.to_table()):
        for row in rows.to_pylist():
            assert row["country"] == row["value"]["country"]
            assert row["id_trunc_10"] == row["value"]["id"] // 10 * 10
            assert 0 <= row["id_bucket_4"] < 4
    german = pc.field("country") == "DE"
    assert 0 < len(list(ours.get_fragments(german))) < len(ours.files)
    polars = pytest.importorskip("polars")
    found = polars.scan_delta(orders.table).filter(polars.col("country") == "a b/ä").collect()
    wanted = ours.to_table(filter=pc.field("country") == "a b/ä")
    assert sorted(found["offset"].to_list()) == sorted(wanted["offset"].to_pylist())
    assert len(found)
    delta.optimize.compact()
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    orders.load(15, 16)
    orders.assert_whole()
    if not is_latest:
        rerun(orders.job(), rerun_range("1", None, "orders"))
    optimize(orders.table, LocalEngine())
    vacuum(orders.table, SystemClock(), retention_ms=0)
    orders.assert_whole()


def test_a_delta_table_cannot_be_partitioned_otherwise_later(tmp_path: Path) -> None:
    Orders(tmp_path, "value.country").load(1)
    orders = Orders.__new__(Orders)
    orders.log, orders.table = str(tmp_path / "log"), str(tmp_path / "table")
    options = LayoutOptions(partitioning=Partitioning.by_time("day"))
    place = LoadRoute(orders.log, "orders", orders.table)
    with pytest.raises(UserError, match=r"partitioned by value\.country, which cannot change"):
        load(load_job(place, LocalEngine(), options=LoadOptions(layout=options)))
