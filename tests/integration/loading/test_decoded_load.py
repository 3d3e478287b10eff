"""Loads that decode values: what is in the table, what is set aside, and what stays pinned."""

import json
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions
from ottla.loading.load import LoadReport
from ottla.schema_registry.framing import PREFIX
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from ottla.table import dataset
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import FileRole
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.record_decoder import decoded_types
from ottla.tables.writing.record_writer import OnError
from tests.support.following import HOUR_MS, INFERRED, START_MS, append_values
from tests.support.local_loads import load
from tests.unit.tables.test_json_values import BROKEN


def load_into(path: Path, layout: LayoutOptions | None = None, **options: Any) -> LoadReport:
    layout_options = layout or LayoutOptions()
    return load(
        str(path / "log"),
        "orders",
        str(path / "table"),
        options=LoadOptions(layout=layout_options, **options),
    )


def rows(path: Path) -> list[dict[str, Any]]:
    found = dataset(str(path / "table")).to_table()
    return list(found.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist())


def quarantined(path: Path) -> list[dict[str, Any]]:
    table = Table(str(path / "table"))
    return [
        row
        for file in table.current_files()
        if file.role is FileRole.QUARANTINE
        for row in pq.ParquetFile(path / "table" / file.path).read().to_pylist()
    ]


def assert_equal_to_log(path: Path) -> None:
    options = parse_options({**source_options(str(path / "log")), "subscribe": "orders"})
    table = Table(str(path / "table"))
    assert audit(table, open_log(options), "orders", compare_all=True).differences == []


def orders(count: int, first: int = 0) -> list[bytes | None]:
    return [
        json.dumps({"id": number, "at": f"2024-01-01T{number % 24:02}:00:00Z"}).encode()
        for number in range(first, first + count)
    ]


def test_every_broken_record_is_in_quarantine_with_its_reason_and_no_other(tmp_path: Path) -> None:
    sound, broken = orders(1)[0], list(BROKEN.values())
    append_values(tmp_path / "log", [one for value in broken for one in (sound, value, None)])
    schema = (
        "id bigint, small int, price double, exact decimal(5,2), name string, ok boolean, "
        "at timestamp, tags array<string>, who struct<x: bigint, y: string>"
    )
    layout_options = LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema=schema))
    report = load_into(tmp_path, layout_options, on_error=OnError.QUARANTINE, min_partitions=5)
    assert (report.row_count, report.quarantined_count) == (2 * len(broken), len(broken))
    aside = sorted(quarantined(tmp_path), key=lambda row: row["offset"])
    assert [row["offset"] for row in aside] == list(range(1, 3 * len(broken), 3))
    assert [row["value"] for row in aside] == broken
    assert all(row["reason"] and row["key"] == b"key %d" % row["offset"] for row in aside)
    assert {row["value"] and row["value"]["id"] for row in rows(tmp_path)} == {
        0,
        None,
    }
    assert_equal_to_log(tmp_path)


def test_a_broken_record_stops_the_load_unless_it_may_be_set_aside_or_skipped(
    tmp_path: Path,
) -> None:
    append_values(tmp_path / "log", [*orders(30), b'{"id": "x"}', *orders(10)])
    layout_options = LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="id bigint"))
    with pytest.raises(UserError, match=r"orders-0, offset 30: .*value.id is \"x\".*--on-error"):
        load_into(tmp_path, layout_options)
    assert not Table(str(tmp_path / "table")).is_there()
    report = load_into(tmp_path, layout_options, on_error=OnError.SKIP)
    assert (report.row_count, report.quarantined_count) == (40, 1)
    (aside,) = quarantined(tmp_path)
    assert aside["offset"] == 30
    assert "value" not in aside
    assert_equal_to_log(tmp_path)


def test_an_inferred_schema_is_pinned_and_grows_only_when_it_is_told_to(tmp_path: Path) -> None:
    append_values(tmp_path / "log", orders(5))
    load_into(tmp_path, LayoutOptions(decoding=INFERRED))
    layout = Table(str(tmp_path / "table")).layout()
    assert layout.decoding is not None
    assert layout.decoding.schema == "id bigint, at string"
    append_values(tmp_path / "log", [b'{"id": 7, "new": "n"}'])
    load_into(tmp_path)
    assert rows(tmp_path)[-1]["value"] == {"id": 7, "at": None}
    append_values(tmp_path / "log", [b'{"id": 8, "new": "n"}'])
    grown = Decoding(format=ValueFormat.JSON, schema="id bigint, at string, new string")
    load_into(tmp_path, LayoutOptions(decoding=grown))
    found = [row["value"] for row in rows(tmp_path)]
    assert found[-1] == {"id": 8, "at": None, "new": "n"}
    assert found[-2] == {"id": 7, "at": None, "new": None}
    assert [one.since_commit for one in Table(str(tmp_path / "table")).layout().decodings] == [0, 2]
    for layout_options, words in (
        (
            LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="id int")),
            "value.id was",
        ),
        (LayoutOptions(is_raw=True), "decoded as json; load raw ones into another"),
        (
            LayoutOptions(partitioning=Partitioning.by_time("day")),
            "the table's files are not partitioned",
        ),
    ):
        with pytest.raises(UserError, match=words):
            load_into(tmp_path, layout_options)
    assert_equal_to_log(tmp_path)


def test_avro_values_with_a_registrys_prefix_become_columns(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    fields = [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    schema = {"type": "record", "name": "Order", "fields": fields}
    stream = BytesIO(b"\0\0\0\0\7")
    stream.seek(5)
    value = {"id": 3, "tags": {"a": 1}, "at": START_MS}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    append_values(tmp_path / "log", [stream.getvalue(), None, b"\0\0\0\0\7\6"])
    decoding = Decoding(
        format=ValueFormat.AVRO, schema=json.dumps(schema), confluent=True, schema_id=7
    )
    report = load_into(tmp_path, LayoutOptions(decoding=decoding), on_error=OnError.QUARANTINE)
    assert (report.row_count, report.quarantined_count) == (2, 1)
    first, tombstone = rows(tmp_path)
    assert (first["value"]["id"], first["value"]["tags"]) == (3, [("a", 1)])
    assert first["value"]["at"].timestamp() * 1000 == START_MS
    assert tombstone["value"] is None
    assert_equal_to_log(tmp_path)


def test_a_table_of_registered_values_grows_with_its_subject(tmp_path: Path) -> None:
    """Its fields stand in another order in each version; a later load says nothing of schemas."""
    fastavro = pytest.importorskip("fastavro")
    registry = tmp_path / "schemas"
    registry.mkdir()
    person = {"first": "Alan", "last": "Turing", "born": 1912}
    texts = {"type": "string"}

    def register(schema_id: int, *fields: dict[str, Any]) -> bytes:
        schema = {"type": "record", "name": "Person", "fields": list(fields)}
        for name in (str(schema_id), f"orders-value.{schema_id}"):
            (registry / f"{name}.avsc").write_text(json.dumps(schema))
        stream = BytesIO(PREFIX.pack(0, schema_id))
        stream.seek(0, SEEK_END)
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), person)
        return stream.getvalue()

    first, last = ({"name": name, "type": texts} for name in ("first", "last"))
    append_values(tmp_path / "log", [register(1, first, last), register(2, last, first)])
    asked = Decoding(format=ValueFormat.AVRO, schema="", registry=str(registry))
    load_into(tmp_path, LayoutOptions(decoding=asked))
    append_values(tmp_path / "log", [register(3, {"name": "born", "type": "int"}, last, first)])
    load_into(tmp_path)
    assert [row["value"] for row in rows(tmp_path)] == [
        {**person, "born": None},
        {**person, "born": None},
        person,
    ]
    assert_equal_to_log(tmp_path)


@pytest.mark.parametrize("unit", ["day", "hour"])
def test_files_lie_in_directories_by_the_records_time_and_late_ones_in_their_own(
    tmp_path: Path, unit: str
) -> None:
    append_values(tmp_path / "log", orders(100), step_ms=HOUR_MS)
    layout_options = LayoutOptions(partitioning=Partitioning.by_time(unit))
    load_into(tmp_path, layout_options, min_partitions=3)
    append_values(tmp_path / "log", orders(2), step_ms=HOUR_MS)
    late = load_into(tmp_path)
    days = {row["timestamp"].strftime("%Y-%m-%d") for row in rows(tmp_path)}
    for file in Table(str(tmp_path / "table")).current_files():
        assert set(file.values) == ({"day"} if unit == "day" else {"day", "hour"})
        times = pq.ParquetFile(tmp_path / "table" / file.path).read()["timestamp"].to_pylist()
        assert {time.strftime("%Y-%m-%d") for time in times} == {file.values["day"]}
        assert {time.strftime("%H") for time in times} == {file.values.get("hour")} or (
            unit == "day"
        )
    assert {file.values["day"] for file in late.files} == {min(days)}
    assert len(rows(tmp_path)) == 102
    assert_equal_to_log(tmp_path)


def test_files_can_lie_by_a_time_that_the_value_says(tmp_path: Path) -> None:
    append_values(tmp_path / "log", [*orders(48), b"{}"])
    by = Partitioning.by_time("hour", "value.at")
    typed = Decoding(format=ValueFormat.JSON, schema="id bigint, at timestamp")
    with pytest.raises(UserError, match=r"takes a timestamp column, and value\.at is string"):
        load_into(tmp_path, LayoutOptions(decoding=INFERRED, partitioning=by))
    report = load_into(tmp_path, LayoutOptions(decoding=typed, partitioning=by))
    hours = {(file.values["day"], file.values["hour"]) for file in report.files}
    unknown = ("__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__")
    assert hours == {unknown, *(("2024-01-01", f"{hour:02}") for hour in range(24))}
    assert_equal_to_log(tmp_path)


def test_rows_say_where_they_are_from_and_which_load_brought_them(tmp_path: Path) -> None:
    for _ in range(2):
        append_values(tmp_path / "log", orders(3))
        load_into(tmp_path)
    found = rows(tmp_path)
    assert [row["commit_id"] for row in found] == [0, 0, 0, 1, 1, 1]
    assert {row["topic"] for row in found} == {"orders"}


def test_files_come_near_to_the_size_that_is_asked_for(tmp_path: Path) -> None:
    import random

    chance = random.Random(1)
    append_values(tmp_path / "log", [chance.randbytes(200) for _ in range(5000)])
    report = load_into(tmp_path, target_size=100_000, min_partitions=1)
    sizes = [file.size for file in report.files]
    assert len(sizes) > 5
    assert all(70_000 < size < 130_000 for size in sizes)


@pytest.mark.slow
def test_a_table_with_a_column_that_its_schema_no_longer_gives_is_refused_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a logical type counted on a wrong underlying type too, here a date on a long."""
    pytest.importorskip("fastavro")
    from ottla.schema_registry import avro_schemas

    schema = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "day", "type": {"type": "long", "logicalType": "date"}}],
        }
    )
    avro = LayoutOptions(decoding=Decoding(format=ValueFormat.AVRO, schema=schema))
    append_values(tmp_path / "log", [b"\2"])
    with monkeypatch.context() as patch:
        patch.setitem(avro_schemas._LOGICAL_OF, "date", ("int", "long"))
        load_into(tmp_path, avro)
    decoded_types.cache_clear()
    before = Table(str(tmp_path / "table")).current_files()
    append_values(tmp_path / "log", [b"\4"])
    with pytest.raises(UserError, match=r"column value\.day is date32.* and would be int64"):
        load_into(tmp_path)
    assert Table(str(tmp_path / "table")).current_files() == before
