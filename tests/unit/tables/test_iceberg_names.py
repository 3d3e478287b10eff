"""Columns of Iceberg's tables that another program renames or drops: readers find columns by their
ids, so the rows of files would be others than those of the log.
"""

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import StringType

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import optimize
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat

pytestmark = pytest.mark.slow

TABLE = "iceberg://lake/shop.orders"


class Orders:
    def __init__(self, path: Path, *, is_flat: bool) -> None:
        self._log = str(path / "log")
        self._uri = f"sqlite:///{path}/.local/share/ottla/iceberg/lake/catalog.db"
        decoding = Decoding(format=ValueFormat.JSON, schema="id int, note string")
        self._layout = LayoutOptions(decoding=decoding, is_flat=is_flat)

    def job(self) -> LoadJob:
        options = LoadOptions(layout=self._layout)
        return load_job(LoadRoute(self._log, "orders", TABLE), LocalEngine(), options=options)

    def load(self, number: int) -> None:
        with ottla.open(self._log) as log:
            log.create_topic("orders", exist_ok=True)
            log.append("orders", b'{"id": %d, "note": "n%d"}' % (number, number))
        load(self.job())

    def theirs(self) -> IcebergTable:
        return load_catalog("lake", type="sql", uri=self._uri).load_table("shop.orders")

    def rename(self, path: str, name: str) -> None:
        with self.theirs().update_schema(allow_incompatible_changes=True) as update:
            update.rename_column(path, name)

    def audit(self) -> None:
        log = open_log(topic_options(self._log, "orders"))
        assert audit(Table(TABLE), log, "orders", compare_all=True).differences == []

    def assert_refused(self, words: str) -> None:
        for act in (lambda: self.load(2), self.audit, lambda: optimize(TABLE, LocalEngine())):
            with pytest.raises(UserError, match=words):
                act()


@pytest.mark.parametrize("is_flat", [True, False])
def test_a_renamed_column_is_refused_until_it_has_its_name_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_flat: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    orders = Orders(tmp_path, is_flat=is_flat)
    orders.load(1)
    prefix, own = ("", "_offset") if is_flat else ("value.", "offset")
    for path, name in ((f"{prefix}note", "remark"), (own, "place")):
        there = f"{path.rpartition('note')[0]}{name}"
        orders.rename(path, name)
        orders.assert_refused(
            rf"renamed the column {path} to {there}; .*RENAME COLUMN {there} TO {path[-4:]}"
            if path != own
            else f"renamed the column {own} to place; "
        )
        orders.rename(there, path.removeprefix(prefix))
    with orders.theirs().update_schema() as update:
        update.add_column("theirs", StringType())
    with orders.theirs().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("theirs")
    orders.load(3)
    orders.audit()
    rows = orders.theirs().scan().to_arrow().to_pylist()
    assert sorted((row if is_flat else row["value"])["note"] for row in rows)[:1] == ["n1"]
    assert all((row if is_flat else row["value"])["note"] for row in rows)


def test_a_dropped_column_is_refused_also_after_it_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    orders = Orders(tmp_path, is_flat=True)
    orders.load(1)
    with orders.theirs().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("note")
    orders.assert_refused("another program has dropped the column note")
    with orders.theirs().update_schema() as update:
        update.add_column("note", StringType())
    orders.assert_refused("another program has dropped the column note")
