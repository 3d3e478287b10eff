"""Other programs ask for values in an Iceberg table's columns, or make it of a later version."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, MapType, NestedField, StringType

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.job import LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.formats.iceberg_rules import check_rules
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table

TABLE = "iceberg://lake/shop.orders"


def load_new(path: Path) -> None:
    with ottla.open(path / "log") as log:
        log.create_topic("orders", exist_ok=True)
        log.append("orders", b"1")
    load(load_job(LoadRoute(str(path / "log"), "orders", TABLE), LocalEngine()))


def opened(path: Path) -> Any:
    uri = f"sqlite:///{path}/.local/share/ottla/iceberg/lake/catalog.db"
    return load_catalog("lake", type="sql", uri=uri).load_table("shop.orders")


def require_a_column(table: Any) -> None:
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("country", StringType(), required=True)


def raise_version(table: Any) -> None:
    """As Spark's ALTER TABLE; pyiceberg does not write this version."""
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata |= {"format-version": 3, "next-row-id": 1}
    path.write_text(json.dumps(metadata))


def add_partition_field(table: Any) -> None:
    with table.update_spec() as update:
        update.add_field("offset", BucketTransform(4), "offsets")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (require_a_column, "requires a value in each row of column country.*DROP NOT NULL, or"),
        (raise_version, "format version 3, which pyiceberg reads and cannot write; load into an"),
        (add_partition_field, "has changed how the table is partitioned; load into another"),
    ],
)
def test_what_loads_do_not_heed_is_refused_and_no_file_is_left(
    tmp_path: Path, change: Callable[[Any], None], told: str
) -> None:
    load_new(tmp_path)
    change(opened(tmp_path))
    before = {one for one in Table(TABLE).sizes() if one.startswith("data")}
    with pytest.raises(UserError, match=told):
        load_new(tmp_path)
    assert {one for one in Table(TABLE).sizes() if one.startswith("data")} == before
    assert ottla.table.dataset(TABLE).count_rows() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_table_whose_files_no_one_may_remove_is_not_vacuumed(tmp_path: Path) -> None:
    load_new(tmp_path)
    with opened(tmp_path).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    with pytest.raises(UserError, match=r"gc\.enabled is false.* set it to true first"):
        vacuum(TABLE, SystemClock(), retention_ms=0)
    load_new(tmp_path)


def test_keys_of_maps_and_columns_that_always_have_a_value_may_be_required() -> None:
    counts = MapType(4, StringType(), 5, LongType(), value_required=False)
    own = NestedField(1, "partition", IntegerType(), required=True)
    other = NestedField(2, "counts", counts, required=False)
    check_rules("t", Schema(own, other))
    with pytest.raises(UserError, match=r"column note"):
        check_rules("t", Schema(own, other, NestedField(3, "note", StringType(), required=True)))
