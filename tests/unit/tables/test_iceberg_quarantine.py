"""The quarantine of an Iceberg table as a table of its catalog."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import redrive
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError

pytestmark = pytest.mark.slow

TABLE = "iceberg://lake/shop.orders"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    found = load_catalog("lake", **properties)
    found.create_namespace("shop")
    return found


def job(path: Path, schema: str, on_error: OnError = OnError.QUARANTINE) -> LoadJob:
    decoding = Decoding(format=ValueFormat.JSON, schema=schema)
    options = LoadOptions(layout=LayoutOptions(decoding=decoding), on_error=on_error)
    route = LoadRoute(str(path / "log"), "orders", TABLE)
    return load_job(route, LocalEngine(), options=options)


def load_values(path: Path, *values: bytes, **options: Any) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        log.append_many("orders", list(values))
    load(job(path, "id int", **options))


def test_the_catalog_shows_what_is_in_quarantine(tmp_path: Path, catalog: Catalog) -> None:
    load_values(tmp_path, b'{"id": 1}')
    assert catalog.list_tables("shop") == [("shop", "orders")]
    load_values(tmp_path, b"{", b'{"id": 3000000000}', b'{"id": 2}')
    load_values(tmp_path, b"[", on_error=OnError.SKIP)

    def shown(**options: Any) -> list[tuple[Any, ...]]:
        rows = catalog.load_table("shop.orders_quarantine").scan(**options).to_arrow()
        return sorted((row["offset"], row["value"]) for row in rows.to_pylist())

    assert shown() == [(1, b"{"), (2, b'{"id": 3000000000}'), (4, None)]
    assert shown(row_filter="offset = 4") == [(4, None)]
    beside = ottla.table.quarantine(TABLE).to_table().to_pylist()
    rows = catalog.load_table("shop.orders_quarantine").scan().to_arrow().to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, beside))
    redrive(job(tmp_path, "id bigint"))
    assert [offset for offset, _ in shown()] == [1, 4]
    vacuum(TABLE, SystemClock(), retention_ms=0)
    assert [offset for offset, _ in shown()] == [1, 4]


def test_a_table_of_the_name_that_is_of_something_else_is_left_alone(
    tmp_path: Path, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    catalog.create_table("shop.orders_quarantine", schema)
    load_values(tmp_path, b"{")
    assert "shop.orders_quarantine is a table of something else" in caplog.text
    assert len(catalog.load_table("shop.orders_quarantine").schema().fields) == 1
    assert ottla.table.quarantine(TABLE).count_rows() == 1
