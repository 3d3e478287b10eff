"""Tables of Iceberg: what a load commits, who may, what others read, and what a crash leaves."""

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.extras import install_command
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import Partitioning, parse_partitioning
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.schema import parse_schema
from ottla.tables.writing.progress import Progress, Step
from tests.support.patience import PATIENCE_S

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import index_by_name
from pyiceberg.types import StringType

from ottla.tables.formats.iceberg import IcebergLog

pytestmark = pytest.mark.slow

TABLE = "iceberg://lake/shop.orders"
OFFSETS = [(0, offset) for offset in range(30)]


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


@pytest.fixture(autouse=True)
def planner(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The own planner of polars is a package by itself."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def append(path: Path, count: int) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in range(count):
            log.append("orders", b'{"id": %d}' % number)


def place(path: Path) -> LoadRoute:
    return LoadRoute(str(path / "log"), "orders", TABLE)


def load_new(path: Path, count: int = 10, **options: Any) -> LoadReport:
    append(path, count)
    return load(load_job(place(path), LocalEngine(), options=LoadOptions(**options)))


def catalog(path: Path) -> Catalog:
    """As any program opens it."""
    directory = path / ".local" / "share" / "ottla" / "iceberg" / "lake"
    return load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{directory}/catalog.db",
        warehouse=f"file://{directory}",
    )


def by_pyiceberg(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        catalog(path).load_table("shop.orders").scan().to_arrow().to_pylist()
    )
    return found


def by_duckdb(path: Path) -> list[dict[str, Any]]:
    pytest.importorskip("duckdb")
    connection = catalog(path).load_table("shop.orders").scan().to_duckdb("orders")
    found: list[dict[str, Any]] = connection.table("orders").to_arrow_table().to_pylist()
    return found


def by_polars(path: Path) -> list[dict[str, Any]]:
    polars = pytest.importorskip("polars")
    table = catalog(path).load_table("shop.orders")
    found: list[dict[str, Any]] = polars.scan_iceberg(table).collect().to_dicts()
    return found


def by_daft(path: Path) -> list[dict[str, Any]]:
    """In a process of its own: it runs threads that outlive a query. It finds columns by number."""
    if find_spec("daft") is None:
        pytest.skip("daft is not installed")
    program = """
import pickle, sys, daft
from pyiceberg.table import StaticTable
found = daft.read_iceberg(StaticTable.from_metadata(sys.argv[1]))
sys.stdout.buffer.write(pickle.dumps(found.to_pylist()))
"""
    metadata = catalog(path).load_table("shop.orders").metadata_location
    command = [sys.executable, "-c", program, metadata]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = pickle.loads(done.stdout)
    return found


def by_ottla(_: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ottla.table.dataset(TABLE).to_table().to_pylist()
    return found


READERS = [by_pyiceberg, by_duckdb, by_polars, by_daft, by_ottla]


def offsets(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


def is_equal(path: Path) -> bool:
    log = open_log(topic_options(str(path / "log"), "orders"))
    return audit(Table(TABLE), log, "orders", compare_all=True).is_equal


@pytest.mark.parametrize("read", READERS)
def test_every_reader_sees_each_row_once_after_loads_a_rerun_and_a_compaction(
    tmp_path: Path, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    for _ in range(3):
        report = load_new(tmp_path, min_partitions=2)
        assert (report.row_count, report.into) == (10, TABLE)
    assert offsets(read(tmp_path)) == OFFSETS
    rerun(load_job(place(tmp_path), LocalEngine()), rerun_range("4", "23", "orders"))
    assert offsets(read(tmp_path)) == OFFSETS
    assert len(optimize(TABLE, LocalEngine(), options=OptimizeOptions()).after) == 1
    assert offsets(read(tmp_path)) == OFFSETS
    vacuum(TABLE, SystemClock(), retention_ms=0)
    assert offsets(read(tmp_path)) == OFFSETS
    assert len(Table(TABLE).store.find("data")) == 1
    load_new(tmp_path, 0)
    assert is_equal(tmp_path)


@pytest.mark.parametrize("read", READERS)
def test_columns_that_a_table_grew_are_null_in_the_rows_before(
    tmp_path: Path, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    for schema in ("id bigint", "id bigint, note string"):
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        load_new(tmp_path, 1, layout=LayoutOptions(decoding=decoding))
    rows = sorted(read(tmp_path), key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == [{"id": 0, "note": None}] * 2


@pytest.mark.parametrize("read", READERS)
def test_the_columns_of_directories_are_there_for_every_reader(
    tmp_path: Path,
    read: Callable[[Path], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As tables had them before their directories were transforms.
    by_day = LayoutOptions(partitioning=Partitioning.by_time("day"))
    with monkeypatch.context() as patch:
        patch.setattr(IcebergLog, "has_transforms", False)
        load_new(tmp_path, 3, layout=by_day)
    load_new(tmp_path, 3, layout=by_day)
    assert {len(row["day"]) for row in read(tmp_path)} == {len("2026-01-31")}


NARROW = "id int, who struct<name: string, tags: map<string, int>>"
WIDE = "note string, id bigint, who struct<age: int, name: string, tags: map<string, int>>"


@pytest.mark.parametrize("is_latest", [False, True], ids=["all", "latest"])
def test_files_have_the_numbers_of_their_columns_also_of_those_that_come_later(
    tmp_path: Path, is_latest: bool
) -> None:
    for schema in (NARROW, WIDE, WIDE):
        append(tmp_path, 0)
        with ottla.open(tmp_path / "log") as log:
            log.append("orders", b'{"id": 1, "who": {"tags": {"a": 1}}}', key=schema.encode())
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        layout = LayoutOptions(decoding=decoding, upsert=Upsert() if is_latest else None)
        load_new(tmp_path, 0, layout=layout)
        assert_numbered(tmp_path)
    end = None if is_latest else "2"
    rerun(load_job(place(tmp_path), LocalEngine()), rerun_range("1", end, "orders"))
    assert_numbered(tmp_path)
    optimize(TABLE, LocalEngine(), options=OptimizeOptions())
    assert_numbered(tmp_path)
    optimize(TABLE, LocalEngine(), options=OptimizeOptions(sort_by=SortColumn.TIMESTAMP))
    assert_numbered(tmp_path)
    assert is_equal(tmp_path)


def assert_numbered(path: Path) -> None:
    table = catalog(path).load_table("shop.orders")
    wanted = index_by_name(table.schema())
    for task in table.scan().plan_files():
        found = pyarrow_to_schema(parquet.read_schema(task.file.file_path.removeprefix("file://")))
        numbers = index_by_name(found)
        assert {"key", "value.id", "headers.element.key"} <= numbers.keys()
        assert numbers.items() <= wanted.items()


def test_columns_that_others_change_while_files_are_written_have_these_written_again(
    tmp_path: Path,
) -> None:
    load_new(
        tmp_path,
        1,
        layout=LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="id int")),
    )
    append(tmp_path, 1)
    steps: list[Step] = []

    def add_a_column(progress: Progress) -> None:
        if progress.step is Step.WRITTEN and Step.WRITTEN not in steps:
            with catalog(tmp_path).load_table("shop.orders").update_schema() as update:
                update.add_column("theirs", StringType())
        steps.append(progress.step)

    decoding = Decoding(format=ValueFormat.JSON, schema="id int, note string")
    options = LoadOptions(layout=LayoutOptions(decoding=decoding))
    load(load_job(place(tmp_path), LocalEngine(), add_a_column, options))
    assert steps.count(Step.WRITTEN) == 2
    assert_numbered(tmp_path)
    assert is_equal(tmp_path)


def test_the_facts_of_a_commit_are_in_the_summary_of_its_snapshot(tmp_path: Path) -> None:
    load_new(tmp_path)
    table = catalog(tmp_path).load_table("shop.orders")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    facts = json.loads(str(snapshot.summary["ottla.facts"]))
    assert facts["partitions"][0]["until_offset"] == 10
    assert table.properties["ottla.next-offset.orders-0"] == "10"
    (entry,) = Table(TABLE).entries()
    assert entry.version == snapshot.snapshot_id


def test_a_query_by_offset_leaves_out_files_that_have_none_of_them(tmp_path: Path) -> None:
    load_new(tmp_path)
    load_new(tmp_path)
    table = catalog(tmp_path).load_table("shop.orders")
    assert len(list(table.scan().plan_files())) == 2
    assert len(list(table.scan(row_filter="offset >= 15").plan_files())) == 1


def test_a_table_is_read_as_it_was(tmp_path: Path) -> None:
    first = load_new(tmp_path)
    load_new(tmp_path)
    version = Table(TABLE).entries()[0].version
    assert first.row_count == ottla.table.dataset(TABLE, version=version).count_rows() == 10
    assert ottla.table.dataset(TABLE, offsets={0: 13}).count_rows() == 13
    now_ms = SystemClock().now_ms()
    assert ottla.table.dataset(TABLE, time_ms=now_ms).count_rows() == 20
    with pytest.raises(UserError, match="has no version of 1970"):
        ottla.table.dataset(TABLE, time_ms=1)
    with pytest.raises(UserError, match="has no snapshot 1"):
        ottla.table.dataset(TABLE, version=1)


@pytest.mark.parametrize("loads", [0, 1])
def test_who_comes_second_with_a_commit_is_refused(tmp_path: Path, loads: int) -> None:
    """Past the lock, which an object store does not have."""
    for _ in range(loads):
        load_new(tmp_path)
    second = Table(TABLE)
    assert second.state().commit_count == loads
    load_new(tmp_path)
    entry = Table(TABLE).entries()[loads]
    with pytest.raises(CommitTakenError):
        second.commit(replace(entry, source="another"))
    assert len(second.entries()) == loads + 1
    assert is_equal(tmp_path)


@pytest.mark.parametrize("loads", [0, 1])
def test_of_two_that_commit_in_the_same_moment_the_catalog_refuses_one(
    tmp_path: Path, loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has asked for the table's state when the other commits."""
    for _ in range(loads):
        load_new(tmp_path)
    append(tmp_path, 5)
    job = load_job(place(tmp_path), LocalEngine())
    log: Any = job.table.log
    real = log._try
    refused: list[Exception] = []

    def late(*arguments: Any) -> None:
        patch.setattr(log, "_try", real)
        patch.setattr(type(job.table.store), "claimed", lambda _: nullcontext())
        load(load_job(place(tmp_path), LocalEngine()))
        try:
            real(*arguments)
        except Exception as error:
            refused.append(error)
            raise

    with monkeypatch.context() as patch:
        patch.setattr(log, "_try", late)
        assert load(job).nothing_new
    assert len(refused) == 1
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS[: 10 * loads + 5]
    assert is_equal(tmp_path)


def test_a_commit_is_made_on_top_of_one_of_another_program(tmp_path: Path) -> None:
    load_new(tmp_path)
    table = catalog(tmp_path).load_table("shop.orders")
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "somebody"})
        transaction.update_snapshot().fast_append().commit()
    load_new(tmp_path)
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS[:20]
    assert catalog(tmp_path).load_table("shop.orders").properties["owner"] == "somebody"


@pytest.mark.parametrize("step", list(Step))
def test_a_load_that_is_stopped_at_a_step_is_continued_by_the_next(
    tmp_path: Path, step: Step
) -> None:
    def stop(progress: Progress) -> None:
        if progress.step is step:
            raise Stopped

    for _ in range(2):
        append(tmp_path, 10)
        with pytest.raises(Stopped):
            load(load_job(place(tmp_path), LocalEngine(), stop))
    append(tmp_path, 10)
    load(load_job(place(tmp_path), LocalEngine()))
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS
    assert is_equal(tmp_path)


def test_a_commit_that_the_ledger_lacks_is_read_and_then_written(tmp_path: Path) -> None:
    load_new(tmp_path)
    load_new(tmp_path)
    table = Table(TABLE)
    whole = table.entries()
    Path(table.path, "_ottla", "ledger", f"{1:020d}.json").unlink()
    assert Table(TABLE).entries() == whole
    load_new(tmp_path)
    assert Table(TABLE).ledger.entries()[:2] == whole
    assert is_equal(tmp_path)


def test_of_a_commit_whose_history_is_gone_the_table_has_enough_to_continue(
    tmp_path: Path,
) -> None:
    load_new(tmp_path)
    load_new(tmp_path)
    table = Table(TABLE)
    Path(table.path, "_ottla", "ledger", f"{1:020d}.json").unlink()
    others = catalog(tmp_path).load_table("shop.orders")
    with others.transaction() as transaction:
        transaction.update_snapshot().fast_append().commit()
    others = catalog(tmp_path).load_table("shop.orders")
    gone = [one.snapshot_id for one in others.snapshots()[:-1]]
    others.maintenance.expire_snapshots().by_ids(gone).commit()
    (loaded,) = Table(TABLE).state().loaded.values()
    assert (loaded.from_offset, loaded.until_offset, loaded.row_count) == (10, 20, 10)
    load_new(tmp_path)
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS


def test_an_answer_that_is_lost_is_no_second_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_new(tmp_path)
    append(tmp_path, 5)
    job = load_job(place(tmp_path), LocalEngine())
    log: Any = job.table.log
    real = log._try

    def lost(*arguments: Any) -> None:
        real(*arguments)
        raise ConnectionResetError

    monkeypatch.setattr(log, "_try", lost)
    assert load(job).row_count == 5
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS[:15]


def test_what_the_catalog_names_is_synced_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    real = os.fsync

    def sync(file: int) -> None:
        synced.add(os.path.realpath(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    load_new(tmp_path)
    table = Path(Table(TABLE).path)
    made = {str(path) for path in table.rglob("*") if path.suffix == ".avro"}
    metadata = catalog(tmp_path).load_table("shop.orders").metadata_location
    assert {*made, metadata.removeprefix("file://"), str(table / "metadata")} <= synced


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    Table(TABLE)
    catalog(tmp_path).create_table("shop.orders", pa.schema([("a", pa.int64())]))
    with pytest.raises(UserError, match="an Iceberg table that ottla did not load"):
        load_new(tmp_path)


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ottla.tables.formats.iceberg", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(UserError, match=re.escape(install_command("iceberg"))):
        Table(TABLE)


@pytest.mark.parametrize("address", ["iceberg://lake", "iceberg://lake/orders", "iceberg:///a.b"])
def test_an_address_of_no_table_is_refused(address: str) -> None:
    with pytest.raises(UserError, match=r"write iceberg://CATALOG/NAMESPACE\.TABLE"):
        Table(address)


def test_a_catalog_that_pyiceberg_is_configured_for_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{place}/my.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{place}")
    with pytest.raises(UserError, match="pyiceberg --catalog lake create namespace shop"):
        load_new(tmp_path)
    configured = {"uri": f"sqlite:///{place}/my.db", "warehouse": f"file://{place}"}
    load_catalog("lake", **configured).create_namespace("shop")
    load_new(tmp_path)
    assert Table(TABLE).path.startswith(str(place))
    assert len(ottla.table.files(TABLE)) == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [("URI", "http://127.0.0.1:1"), ("URI", "thrift://127.0.0.1:1"), ("TYPE", "x")],
)
def test_a_catalog_that_cannot_be_asked_is_named_with_where_it_is_configured(
    setting: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{setting}", value)
    with pytest.raises(UserError) as refused:
        Table(TABLE)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{TABLE}: ")
    assert refused.value.__notes__ == [
        "catalogs are configured in ~/.pyiceberg.yaml or PYICEBERG_CATALOG__LAKE__URI"
    ]
    # librdkafka's lines are of another test's client.
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if not line.startswith("%")] == []


def test_a_table_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{TABLE} holds no table that ottla loaded"):
        ottla.table.files(TABLE)
    with pytest.raises(UserError, match=f"^{TABLE} holds no table that ottla loaded"):
        Table(TABLE).entries()


def test_the_latest_row_of_each_key_is_what_every_reader_finds(tmp_path: Path) -> None:
    options = LoadOptions(layout=LayoutOptions(upsert=Upsert()))
    for changes in ({b"a": b"1", b"b": b"1"}, {b"a": b"2", b"b": None, b"c": b"1"}, {b"c": None}):
        with ottla.open(tmp_path / "log") as log:
            if "orders" not in log.topics():
                log.create_topic("orders")
            for key, value in changes.items():
                log.append("orders", value, key=key)
        load(load_job(place(tmp_path), LocalEngine(), options=options))
    for read in READERS:
        found = {bytes(row["key"]): bytes(row["value"]) for row in read(tmp_path)}
        assert found == {b"a": b"2"}
    opened = open_log(topic_options(str(tmp_path / "log"), "orders"))
    assert audit(Table(TABLE), opened, "orders", compare_all=True).is_equal


@pytest.mark.parametrize("read", READERS)
def test_an_int_that_becomes_bigint_reads_as_one_in_all_rows(
    tmp_path: Path, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    for kind in ("int", "bigint"):
        schema = f"id {kind}, more array<{kind}>"
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        load_new(tmp_path, 1, layout=LayoutOptions(decoding=decoding))
    # Wider columns come in the commit of their rows, which no file is rewritten for.
    assert [len(one.replaces) for one in Table(TABLE).entries()] == [0, 0]
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", b'{"id": 1099511627776, "more": [1099511627776]}')
    load_new(tmp_path, 0)
    rows = sorted(read(tmp_path), key=lambda row: row["offset"])
    nothing = {"id": 0, "more": None}
    assert [row["value"] for row in rows] == [nothing, nothing, {"id": 2**40, "more": [2**40]}]


@pytest.mark.parametrize(
    ("has", "wanted"),
    [
        ("decimal(10,2)", "decimal(10,4)"),
        ("string", "binary"),
        ("timestamp", "date"),
        ("string", "bigint"),
        ("struct<b: bigint>", "string"),
        ("array<timestamp>", "array<string>"),
    ],
)
def test_a_column_that_would_be_of_another_type_is_named_before_files_are_written(
    tmp_path: Path, has: str, wanted: str
) -> None:
    """A table of another version of Ottla may have decoded the same schema otherwise."""
    load_new(tmp_path, 1, layout=LayoutOptions(decoding=json_of(f"a {has}, more int")))
    opened = Table(TABLE)
    value = f"value struct<a: {wanted}, more: bigint>"
    schema = pa.schema(list(parse_schema(f"partition int, offset bigint, {value}")))
    with pytest.raises(UserError, match=r"column value\.a.* is .* and would be .*another version"):
        opened.log.field_ids(schema)
    opened.log.field_ids(schema.remove(2))


def json_of(schema: str) -> Decoding:
    return Decoding(format=ValueFormat.JSON, schema=schema)


STATEMENTS: dict[str, Callable[[Any], object]] = {
    "delete": lambda table: table.delete("offset = 1"),
    "overwrite": lambda table: table.overwrite(
        table.scan().to_arrow().slice(0, 2), overwrite_filter="offset < 5"
    ),
    "append": lambda table: table.append(table.scan(row_filter="offset = 2").to_arrow()),
    "delete all": lambda table: table.delete(),
}


@pytest.mark.parametrize("partitioning", [None, Partitioning.by_time("hour")])
def test_rows_that_pyiceberg_deletes_or_overwrites_are_named_and_loaded_again_by_a_rerun(
    tmp_path: Path, partitioning: Partitioning | None
) -> None:
    if partitioning is not None:
        pytest.importorskip("pyiceberg_core")
    load_new(tmp_path, layout=LayoutOptions(partitioning=partitioning))
    load_new(tmp_path)
    log = open_log(topic_options(str(tmp_path / "log"), "orders"))
    for state in STATEMENTS.values():
        state(catalog(tmp_path).load_table("shop.orders"))
        assert not audit(Table(TABLE), log, "orders", compare_all=True).is_equal
        by_time = OptimizeOptions(sort_by=SortColumn.TIMESTAMP)
        if state is STATEMENTS["append"]:
            with pytest.raises(UserError, match="added rows with offsets that were there"):
                optimize(TABLE, LocalEngine(), options=by_time)
        else:
            optimize(TABLE, LocalEngine(), options=by_time)
        job = load_job(place(tmp_path), LocalEngine())
        rerun(job, rerun_range(None, None, "orders"))
        assert audit(Table(TABLE), log, "orders", compare_all=True).is_equal
    load_new(tmp_path, 1)
    assert offsets(by_pyiceberg(tmp_path)) == OFFSETS[:21]


def test_a_query_reads_the_files_alone_whose_bounds_have_its_values(tmp_path: Path) -> None:
    decoding = Decoding(format=ValueFormat.JSON, schema="id bigint, name string")
    for _ in range(3):
        load_new(tmp_path, 2, layout=LayoutOptions(decoding=decoding))
        with ottla.open(tmp_path / "log") as log:
            log.append("orders", b'{"id": 7, "name": "%s"}' % (b"z" * 40))
    load_new(tmp_path, 1, layout=LayoutOptions(decoding=decoding))
    table = catalog(tmp_path).load_table("shop.orders")
    planned = {
        wanted: len(list(table.scan(row_filter=wanted).plan_files()))
        for wanted in (
            "value.id = 8",
            "value.id = 7",
            "value.id is null",
            "value.name is not null",
            f"value.name = '{'z' * 40}'",
            "offset = 8",
        )
    }
    assert list(planned.values()) == [0, 3, 0, 3, 3, 1]
    assert table.scan(row_filter=f"value.name = '{'z' * 40}'").to_arrow().num_rows == 3
    rows = ottla.table.dataset(TABLE)
    by_offset, by_id = pc.field("offset") == 8, pc.field("value", "id") == 7
    assert len(list(rows.get_fragments(by_offset))) == rows.filter(by_offset).count_rows() == 1
    assert len(list(rows.get_fragments(by_id))) == rows.filter(by_id).count_rows() == 3


@pytest.mark.parametrize("is_latest", [False, True])
def test_partitions_are_transforms_that_readers_apply_and_a_change_is_a_new_spec(
    tmp_path: Path, is_latest: bool
) -> None:
    decoding = Decoding(format=ValueFormat.JSON, schema="id bigint")

    def load_by(text: str, count: int) -> None:
        by = parse_partitioning(text)
        upsert = Upsert() if is_latest else None
        layout = LayoutOptions(decoding=decoding, partitioning=by, upsert=upsert)
        with ottla.open(tmp_path / "log") as log:
            if "orders" not in log.topics():
                log.create_topic("orders")
            for number in range(count):
                key = b"k%d" % (number % 7)
                log.append(
                    "orders", b'{"id": %d}' % number, key=key, timestamp_ms=number * 3_600_000
                )
        load(load_job(place(tmp_path), LocalEngine(), options=LoadOptions(layout=layout)))

    load_by("day", 50)
    table = catalog(tmp_path).load_table("shop.orders")
    assert str(table.spec().fields[0].transform) == "day"
    assert "day" not in table.schema().column_names
    late = "timestamp >= '1970-01-03T00:00:00+00:00'"
    assert len(list(table.scan(row_filter=late).plan_files())) == 1
    old = {one.file.file_path for one in table.scan().plan_files()}
    load_by("bucket(4, value.id), truncate(10, value.id)", 3)
    load_by("value.id", 2)
    table = table.refresh()
    assert [str(one.transform) for one in table.spec().fields] == ["identity"]
    if not is_latest:
        assert old <= {one.file.file_path for one in table.scan().plan_files()}
        assert {one.file.spec_id for one in table.scan().plan_files()} == {1, 2, 3}
        rerun(load_job(place(tmp_path), LocalEngine()), rerun_range("10", "20", "orders"))
    optimize(TABLE, LocalEngine())
    vacuum(TABLE, SystemClock(), retention_ms=0)
    log = open_log(topic_options(str(tmp_path / "log"), "orders"))
    assert audit(Table(TABLE), log, "orders", compare_all=True).differences == []
    rows = by_pyiceberg(tmp_path)
    assert len(rows) == (7 if is_latest else 55)
    assert sorted(row["offset"] for row in by_polars(tmp_path)) == sorted(
        row["offset"] for row in rows
    )
    found = table.refresh().scan(row_filter="value.id = 1")
    assert len(found.to_arrow()) == sum(row["value"]["id"] == 1 for row in rows)
