"""Rows of Iceberg that another program deleted by delete files."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import FileFormat

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress, Step
from tests.support.iceberg_deletes import delete_equal, delete_positions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

TABLE = "iceberg://lake/shop.orders"


def place(path: Path) -> LoadRoute:
    return LoadRoute(str(path / "log"), "orders", TABLE)


def load_new(path: Path, count: int) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in range(count):
            log.append("orders", b"%d" % number)
    load(load_job(place(path), LocalEngine()))


def opened(path: Path) -> Any:
    """As any program opens it."""
    directory = path / ".local" / "share" / "ottla" / "iceberg" / "lake"
    warehouse, uri = f"file://{directory}", f"sqlite:///{directory}/catalog.db"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=warehouse)
    return catalog.load_table("shop.orders")


def test_rows_deleted_by_delete_files_are_not_read_and_come_back_by_a_rerun(
    tmp_path: Path,
) -> None:
    load_new(tmp_path, 10)
    load_new(tmp_path, 10)
    log = open_log(topic_options(str(tmp_path / "log"), "orders"))

    def there() -> list[int]:
        rows = ottla.table.dataset(TABLE).to_table()
        assert sum(one.row_count for one in ottla.table.data_files(TABLE)) == rows.num_rows
        return sorted(rows["offset"].to_pylist())

    first = next(one.file for one in opened(tmp_path).scan(row_filter="offset = 3").plan_files())
    delete_positions(opened(tmp_path), {first.file_path: [3, 4]})
    kept = [one for one in range(20) if one not in (3, 4)]
    assert there() == sorted(opened(tmp_path).scan().to_arrow()["offset"].to_pylist()) == kept
    offset = opened(tmp_path).schema().find_field("offset").field_id
    delete_equal(opened(tmp_path), pa.table({"offset": pa.array([7, 19], pa.int64())}), [offset])
    kept = [one for one in kept if one not in (7, 19)]
    assert there() == kept
    load_new(tmp_path, 1)
    assert there() == [*kept, 20]
    assert not audit(Table(TABLE), log, "orders", compare_all=True).is_equal
    with pytest.raises(UserError, match=r"deleted rows in 2 files.*ottla table optimize"):
        ottla.table.files(TABLE)
    optimize(TABLE, LocalEngine(), options=OptimizeOptions())
    assert there() == [*kept, 20]
    assert len(ottla.table.files(TABLE)) == 1
    rerun(load_job(place(tmp_path), LocalEngine()), rerun_range(None, None, "orders"))
    assert there() == list(range(21))
    assert audit(Table(TABLE), log, "orders", compare_all=True).is_equal


@pytest.mark.parametrize("file_format", [FileFormat.ORC, FileFormat.AVRO])
def test_delete_files_of_other_formats_are_read(tmp_path: Path, file_format: FileFormat) -> None:
    load_new(tmp_path, 10)
    orders = opened(tmp_path)
    first = next(one.file for one in orders.scan().plan_files())
    delete_positions(orders, {first.file_path: [3, 4]}, file_format)
    rows = ottla.table.dataset(TABLE).to_table().sort_by("offset")
    assert rows["offset"].to_pylist() == [0, 1, 2, 5, 6, 7, 8, 9]
    names = ["offset", "timestamp", "partition"]
    ids = [orders.schema().find_field(one).field_id for one in names]
    gone = rows.select(names).slice(5, 2)
    delete_equal(opened(tmp_path), gone, ids, file_format)
    unlike = gone.set_column(2, "partition", pa.array([1, 1], gone["partition"].type))
    delete_equal(opened(tmp_path), unlike, ids, file_format)
    left = ottla.table.dataset(TABLE).to_table()["offset"].to_pylist()
    assert sorted(left) == [0, 1, 2, 5, 6, 9]


def test_a_delete_file_without_its_column_is_refused_by_name(tmp_path: Path) -> None:
    load_new(tmp_path, 3)
    orders = opened(tmp_path)
    field_id = orders.schema().find_field("offset").field_id
    delete_equal(orders, pa.table({"place": pa.array([1], pa.int64())}), [field_id])
    with pytest.raises(UserError, match=r"EQUALITY_DELETES.*by column.*'offset'; rewrite"):
        ottla.table.dataset(TABLE)


def test_files_that_lost_rows_since_they_were_read_are_not_replaced(tmp_path: Path) -> None:
    load_new(tmp_path, 10)
    load_new(tmp_path, 10)
    orders = opened(tmp_path)
    paths = [one.file.file_path for one in orders.scan().plan_files()]

    def delete(progress: Progress) -> None:
        if progress.step is Step.WRITTEN:
            delete_positions(orders, {paths[0]: [0]})

    with pytest.raises(CommitTakenError):
        optimize(TABLE, LocalEngine(), delete, OptimizeOptions())
    assert ottla.table.dataset(TABLE).count_rows() == 19
