"""Snapshots, manifests and files of a table of Iceberg as others leave them."""

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.load import load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.tables.formats.durable_files import local_path
from ottla.tables.maintenance.vacuum import vacuum
from tests.unit.tables.test_iceberg import TABLE, by_pyiceberg, catalog, is_equal, load_new, place

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


def test_small_loads_merge_manifests_and_expire_snapshots_as_the_table_says(home: Path) -> None:
    load_new(home)
    load_new(home)
    with catalog(home).load_table("shop.orders").transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for _ in range(4):
        load_new(home)
    table = catalog(home).load_table("shop.orders")
    assert len(table.snapshots()) == 6
    assert [len(one.manifests(table.io)) for one in table.snapshots()] == [1, 2, 1, 2, 1, 2]
    table.manage_snapshots().create_tag(table.snapshots()[1].snapshot_id, "kept").commit()
    kept = {"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "2"}
    with table.transaction() as transaction:
        transaction.set_properties(kept)
    load_new(home)
    after = catalog(home).load_table("shop.orders").snapshots()
    assert [one.sequence_number for one in after] == [2, 5, 6, 7]
    found = by_pyiceberg(home)
    assert sorted(row["offset"] for row in found) == list(range(70))
    assert is_equal(home)


def test_a_file_is_the_tables_however_its_location_is_written(home: Path) -> None:
    load_new(home)
    load_new(home)
    table = catalog(home).load_table("shop.orders")
    other = f"file:{local_path(table.location())}/data"
    with table.transaction() as transaction:
        transaction.set_properties({"write.data.path": other})
    table.overwrite(table.scan().to_arrow())
    (path,) = table.inspect.data_files()["file_path"].to_pylist()
    assert path.startswith(f"{other}/")
    vacuum(TABLE, SystemClock(), retention_ms=0)
    assert ottla.table.dataset(TABLE).count_rows() == 20
    assert is_equal(home)
    rerun(load_job(place(home), LocalEngine()), rerun_range("3", "5", "orders"))
    assert is_equal(home)
