"""Tables whose rows are updated by fields of values: in whatever order records come, of each key
the record of the highest version.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

import deltalake

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import FileRole
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.forgetting import ForgetOptions, forget
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.upserts import upserting
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError
from tests.support.merged_tables import (
    JOBS,
    KEYS,
    VALUES,
    Model,
    Orders,
    Reader,
    merged_table,
    order,
)

BY_FIELDS = Upsert(
    key=("value.id", "value.country"), version="value.at", delete_when=".op = delete"
)


@pytest.fixture(params=["delta", "iceberg"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Reader]]:
    with merged_table(request.param, tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 9))]
)
def test_whatever_is_done_to_a_table_each_key_has_the_record_of_its_highest_version(
    tmp_path: Path,
    place: tuple[str, Reader],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upserting, "KEYS_AT_ONCE", 3)
    monkeypatch.setattr(upserting, "MEETING_ROWS", 5)
    table, reader = place
    is_flat = table.startswith("iceberg") is (seed % 2 == 0)
    key = ("id", "country") if is_flat else BY_FIELDS.key
    version = "timestamp" if is_flat else "value.at"
    layout = LayoutOptions(
        decoding=VALUES,
        key=KEYS,
        upsert=Upsert(key=key, version=version, delete_when=".op = delete"),
        is_flat=is_flat,
    )
    model = Model(tmp_path, table, seed, layout)
    for _ in range(7):
        if model.chance.random() < 0.7:
            model.append()
        model.do(model.chance.choice(JOBS))
        prefix = "_" if is_flat else ""
        assert sorted(reader([f"{prefix}partition", f"{prefix}offset"])) == model.latest()
        assert model.differences() == []


def test_a_late_record_changes_nothing_and_of_equal_versions_the_later_one_wins(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path, BY_FIELDS)
    orders.load(order(1, 5, n=1), order(2, 5))
    orders.load(order(1, 4), order(2, 5, op="same"), order(1, 3, country="at"))
    assert orders.rows() == [order(1, 5), order(1, 3, country="at"), order(2, 5, op="same")]
    assert orders.differences() == []


def test_a_late_record_does_not_bring_back_a_row_that_was_deleted(tmp_path: Path) -> None:
    orders = Orders(tmp_path, BY_FIELDS)
    orders.load(order(1, 5, op="delete"), order(2, 1))
    orders.load(order(1, 4))
    assert orders.rows() == [order(2, 1)]
    orders.load(order(2, 2, op="delete"))
    optimize(orders.table, LocalEngine())
    vacuum(orders.table, SystemClock(), retention_ms=0)
    orders.load(order(2, 1), order(1, 5))
    assert orders.rows() == [order(1, 5)]
    assert orders.differences() == []


def test_a_record_without_its_key_or_its_version_is_set_apart_with_the_reason(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path, BY_FIELDS)
    report = orders.load(order(1), order(None), {"id": 1, "at": 3}, order(1, None), None)
    assert report.quarantined_count == 4
    assert orders.reasons() == [
        "value.id is null, and rows are updated by it (--upsert-by)",
        "value.country is null, and rows are updated by it (--upsert-by)",
        "value.at is null, and records are ordered by it (--version-by)",
        "it has no value, and so no value.id, value.country to delete a row by; a key with id, "
        "country would name the row (--decode-key json, avro or protobuf)",
    ]
    assert orders.rows() == [order(1)]
    assert orders.differences() == []
    with pytest.raises(UserError, match=r"offset 5: the record cannot be made a row: value\.id is"):
        orders.load(order(None), on_error=OnError.FAIL)


@pytest.mark.parametrize(
    ("upsert", "words"),
    [
        (Upsert(key=("value.no",)), "--upsert-by value.no: the table has no such column; it has"),
        (Upsert(key=("value.x",)), "--upsert-by value.x: rows cannot be told apart by a double"),
        (Upsert(key=("headers",)), "--upsert-by headers: rows cannot be told apart by a list"),
        (Upsert(version="value.no"), "--version-by value.no: the table has no such column"),
        (Upsert(version="value"), "--version-by value: a struct<.*> has no order"),
        (
            Upsert(key=("value.id",), delete_when="value.no = 1"),
            "--delete-when: the table has no value.no; there are id, x",
        ),
    ],
)
def test_columns_that_are_not_there_or_have_no_order_are_refused_by_name(
    tmp_path: Path, upsert: Upsert, words: str
) -> None:
    values = Decoding(format=ValueFormat.JSON, schema="id int, x double")
    orders = Orders(tmp_path, upsert, decoding=values)
    with pytest.raises(UserError, match=words):
        orders.load({"id": 1, "x": 2.0})


def test_between_partitions_no_record_is_the_later_one_unless_something_says_so(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path, Upsert(key=("value.id",)), partitions=2)
    with pytest.raises(UserError, match=r"the topic has 2 partitions, .* add --version-by"):
        orders.load(order(1))
    assert not Path(orders.table, "_delta_log").exists()


def test_how_rows_replace_each_other_is_pinned(tmp_path: Path) -> None:
    Orders(tmp_path, BY_FIELDS).load(order(1))
    place = LoadRoute(str(tmp_path / "log"), "orders", str(tmp_path / "table"))
    assert Table(place.into).layout().upsert == BY_FIELDS
    for other in (Upsert(), Upsert(key=BY_FIELDS.key)):
        options = LoadOptions(layout=LayoutOptions(upsert=other))
        words = (
            "the table has the latest row of each key (--upsert-by value.id,value.country "
            "--version-by value.at --delete-when '.op = delete'), which cannot change"
        )
        with pytest.raises(UserError, match=re.escape(words)):
            load(load_job(place, LocalEngine(), options=options))


def test_a_schema_that_grows_changes_no_key(tmp_path: Path) -> None:
    orders = Orders(tmp_path, Upsert(key=("value.id",)))
    orders.load(order(1), order(2))
    wider = Decoding(
        format=ValueFormat.JSON,
        schema="id bigint, country string, at bigint, op string, n int",
        is_rescuing=True,
    )
    place = LoadRoute(str(tmp_path / "log"), "orders", orders.table)
    with ottla.open(place.source) as log:
        log.append_many("orders", [json.dumps(order(one, 9, n=3)).encode() for one in (2, 2**40)])
    load(load_job(place, LocalEngine(), options=LoadOptions(layout=LayoutOptions(decoding=wider))))
    assert orders.rows() == [
        order(1, n=None),
        order(2**40, 9, n=3),
        order(2, 9, n=3),
    ]
    assert orders.differences() == []


def test_the_keys_of_deleted_rows_are_kept_beside_the_table(tmp_path: Path) -> None:
    orders = Orders(tmp_path, BY_FIELDS)
    orders.load(order(1, 5, op="delete"), order(2))
    (kept,) = [one for one in Table(orders.table).current_files() if one.role is FileRole.DELETED]
    assert (kept.row_count, kept.first_offset) == (1, 0)
    Path(orders.table, kept.path).unlink()
    assert "it is missing" in str(orders.differences())


@pytest.mark.slow
def test_a_row_that_is_forgotten_comes_back_by_no_rerun(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    orders = Orders(tmp_path, BY_FIELDS)
    orders.load(order(1, 3), order(1, 5), order(2))
    forget(orders.table, LocalEngine(), ForgetOptions(condition="value.id = 1", by="a test"))
    assert orders.rows() == [order(2)]
    assert orders.differences() == []
    place = LoadRoute(str(tmp_path / "log"), "orders", orders.table)
    rerun(load_job(place, LocalEngine()), rerun_range("0", None, "orders"))
    orders.load(order(1, 4))
    assert orders.rows() == [order(2)]
    assert orders.differences() == []


def test_files_whose_bounds_exclude_the_changed_keys_are_not_read(tmp_path: Path) -> None:
    orders = Orders(tmp_path, Upsert(key=("value.id",)))
    orders.load(*map(order, range(10)))
    orders.load(*map(order, range(100, 110)))
    first, _ = Table(orders.table).current_files()
    Path(orders.table, first.path).write_bytes(b"no Parquet")
    report = orders.load(order(105, 7))
    assert report.merged is not None
    assert (report.merged.upserted, report.merged.superseded) == (1, 1)


@pytest.mark.parametrize("by_key", [False, True])
def test_a_condition_may_name_what_every_row_has(tmp_path: Path, by_key: bool) -> None:
    upsert = Upsert(
        key=() if by_key else ("value.id",),
        delete_when="header.op = delete or timestamp < 1970-01-02 and partition = 0",
    )
    log_path, table = str(tmp_path / "log"), str(tmp_path / "table")
    with ottla.open(log_path) as log:
        log.create_topic("orders", partitions=1, config={"retention.ms": -1})
        for number in range(3):
            log.append("orders", json.dumps(order(number)).encode(), key=b"%d" % number)
        log.append("orders", json.dumps(order(0)).encode(), key=b"0", headers=[("op", b"delete")])
        log.append("orders", json.dumps(order(1)).encode(), key=b"1", timestamp_ms=5)
    options = LoadOptions(layout=LayoutOptions(decoding=VALUES, upsert=upsert))
    load(load_job(LoadRoute(log_path, "orders", table), LocalEngine(), options=options))
    found = deltalake.DeltaTable(table).to_pyarrow_table(columns=["offset"])
    assert found["offset"].to_pylist() == [2]
