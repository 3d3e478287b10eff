"""Other programs rewrite a table's files and clean up in between, by `OPTIMIZE` and `VACUUM`."""

import itertools
import json
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.auditing.report import AuditReport
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow

DIGITS = string.digits + string.ascii_letters + ".-:+=^!/*?&<>()[]{}@%$#"
FIRST_ROW_GONE: dict[str, Any] = {
    "deletionVector": {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg00000",
        "sizeInBytes": 34,
        "cardinality": 1,
    }
}

LAYOUTS = [
    LayoutOptions(),
    LayoutOptions(upsert=Upsert()),
    LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="id bigint"),
        partitioning=Partitioning.by_time("hour"),
    ),
]


class Orders:
    def __init__(self, path: Path, layout: LayoutOptions) -> None:
        self._log, self.table, self._layout = str(path / "log"), str(path / "table"), layout
        self.delta = lambda: deltalake.DeltaTable(self.table)
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=2)

    def job(self) -> LoadJob:
        place = LoadRoute(self._log, "orders", self.table)
        return load_job(place, LocalEngine(), options=LoadOptions(layout=self._layout))

    def load(self, *numbers: int) -> None:
        with ottla.open(self._log) as log:
            for number in numbers:
                value = json.dumps({"id": number}).encode()
                log.append("orders", value, key=b"k%d" % (number % 3), partition=number % 2)
        load(self.job())

    def load_from_broker(self, number: int) -> None:
        with ottla.open(self._log) as log:
            value = b'{"id": %d}' % number
            log.append("orders", value, key=b"k%d" % (number % 3), partition=number % 2)
            address = log.listen("127.0.0.1:0").address
            place = LoadRoute(address, "orders", self.table)
            load(load_job(place, LocalEngine(), options=LoadOptions(layout=self._layout)))

    def audited(self) -> AuditReport:
        log = open_log(topic_options(self._log, "orders"))
        return audit(Table(self.table), log, "orders", compare_all=True)

    def assert_whole(self) -> None:
        assert self.audited().is_equal

    def rerun(self) -> None:
        rerun(self.job(), rerun_range(None, None, "orders"))

    def sort(self, column: SortColumn) -> None:
        optimize(self.table, LocalEngine(), options=OptimizeOptions(sort_by=column))


@pytest.mark.parametrize("layout", LAYOUTS, ids=["rows", "latest", "by-hour"])
def test_a_table_that_others_optimize_and_vacuum_is_loaded_and_kept_in_order(
    tmp_path: Path, layout: LayoutOptions
) -> None:
    orders = Orders(tmp_path, layout)
    orders.load(0, 1)
    orders.load(2, 3, 4)
    orders.delta().optimize.compact()
    orders.load(5, 6)
    orders.assert_whole()
    orders.delta().optimize.z_order(["offset"])
    rerun(orders.job(), rerun_range("1", None, "orders"))
    orders.assert_whole()
    orders.load(7)
    optimize(orders.table, LocalEngine())
    orders.assert_whole()
    orders.delta().optimize.compact()
    orders.delta().vacuum(0, dry_run=False, enforce_retention_duration=False)
    orders.load(8)
    vacuum(orders.table, SystemClock(), retention_ms=0)
    orders.assert_whole()


def merged(table: Any) -> None:
    """Deletes the first rows by MERGE, as a change feed would."""
    matches = "one.partition = other.partition and one.offset = other.offset"
    found = table.to_pyarrow_table().slice(0, 2)
    table.merge(found, matches, "one", "other").when_matched_delete().execute()


STATEMENTS: dict[str, Callable[[Any], object]] = {
    "delete": lambda table: table.delete("offset = 1"),
    "delete all": lambda table: table.delete(),
    "update": lambda table: table.update(updates={"timestamp": "null"}, predicate="offset = 1"),
    "merge": merged,
    "delete and checkpoint": lambda table: (table.delete("offset = 1"), table.create_checkpoint()),
    "delete and vacuum": lambda table: (
        table.delete("offset = 1"),
        table.vacuum(0, dry_run=False, enforce_retention_duration=False),
    ),
    "overwrite": lambda table: deltalake.write_deltalake(
        table, table.to_pyarrow_table().slice(0, 1), mode="overwrite"
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=["rows", "latest", "by-hour"])
def test_rows_that_others_delete_or_change_are_named_kept_out_and_loaded_again_by_a_rerun(
    tmp_path: Path, layout: LayoutOptions
) -> None:
    orders = Orders(tmp_path, layout)
    orders.load(0, 1, 2, 3)
    orders.load(4, 5, 6, 7)
    for name, state in STATEMENTS.items():
        state(orders.delta())
        changed = not orders.audited().is_equal
        assert changed or (layout.is_latest and "1" in name), name
        orders.sort(SortColumn.TIMESTAMP)
        optimize(orders.table, LocalEngine())
        orders.sort(SortColumn.KEY)
        assert orders.audited().is_equal is not changed, name
        orders.load(len(name))
        orders.rerun()
        orders.assert_whole()


def again(table: Any) -> None:
    deltalake.write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")


@pytest.mark.parametrize(
    ("spoil", "told", "mend"),
    [
        (again, r"added rows with offsets that were there; delete both", "offset >= 0"),
        ("partition", r"is null or below 0; delete them there", "partition is null"),
        ("offset", r"is null or below 0; delete them there", "offset is null"),
        (-7, r"is null or below 0; delete them there", "offset < 0"),
    ],
)
def test_rows_that_are_of_no_record_are_named_with_the_statement_that_mends_them(
    tmp_path: Path, spoil: Any, told: str, mend: str
) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0, 1, 2, 3)
    orders.load(4, 5)
    if callable(spoil):
        spoil(orders.delta())
        assert "overlap" in [one.kind for one in orders.audited().differences]
    else:
        column, value = (spoil, "null") if isinstance(spoil, str) else ("offset", str(spoil))
        orders.delta().update({column: value}, predicate="offset = 1")
        for work in (orders.audited, orders.rerun):
            with pytest.raises(UserError, match=told):
                work()
    with pytest.raises(UserError, match=told):
        orders.sort(SortColumn.KEY)
    orders.delta().delete(mend)
    orders.rerun()
    orders.sort(SortColumn.KEY)
    orders.assert_whole()


def test_a_row_of_another_program_beyond_the_logs_end_is_named(tmp_path: Path) -> None:
    orders = Orders(tmp_path, LayoutOptions(upsert=Upsert()))
    orders.load(0, 1, 2, 3)
    orders.delta().update(new_values={"offset": 99}, predicate="partition = 1 and offset = 1")
    (found,) = [one for one in orders.audited().differences if one.offset == 99]
    assert "the last record of key" in found.text


def delete_first_row(orders: Orders, vector: dict[str, Any] = FIRST_ROW_GONE) -> None:
    """By a deletion vector, as Spark writes them; no package that tests may install does."""
    log = Path(orders.table, "_delta_log")
    files = pa.table(orders.delta().get_add_actions(flatten=True))
    versions = sorted(log.glob("*.json"))
    actions = [json.loads(line) for one in versions for line in one.read_text().splitlines()]
    current = set(files["path"].to_pylist())
    added = next(one["add"] for one in actions if "add" in one and one["add"]["path"] in current)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    removed = {"path": added["path"], "dataChange": True, "deletionTimestamp": 1}
    actions = [{"protocol": protocol}, {"remove": removed}, {"add": {**added, **vector}}]
    text = "".join(f"{json.dumps(one)}\n" for one in actions)
    (log / f"{len(versions):020d}.json").write_text(text)


@pytest.mark.parametrize("layout", LAYOUTS, ids=["rows", "latest", "by-hour"])
def test_rows_deleted_by_deletion_vectors_are_not_read_and_come_back_by_a_rerun(
    tmp_path: Path, layout: LayoutOptions
) -> None:
    orders = Orders(tmp_path, layout)

    def count() -> int:
        return ottla.table.dataset(orders.table).count_rows()

    works = (
        lambda: orders.load(5),
        orders.rerun,
        lambda: optimize(orders.table, LocalEngine()),
        lambda: orders.sort(SortColumn.TIMESTAMP),
        lambda: orders.load_from_broker(6),
    )
    orders.load(0, 1, 2, 3)
    for work in works:
        before = count()
        delete_first_row(orders)
        assert count() == before - 1
        with pytest.raises(UserError, match=r"deleted rows in 1 files.*ottla table optimize"):
            ottla.table.files(orders.table)
        assert not orders.audited().is_equal
        work()
        orders.rerun()
        orders.assert_whole()
        assert count() >= before
        assert ottla.table.files(orders.table)
        # Delta's own reader agrees on what is left.
        rows = deltalake.QueryBuilder().register("t", orders.delta()).execute("select * from t")
        assert pa.table(rows.read_all()).num_rows == count()


@pytest.mark.parametrize("is_flat", [True, False])
def test_values_of_another_programs_column_are_kept_and_no_difference_from_the_log(
    tmp_path: Path, is_flat: bool
) -> None:
    decoding = Decoding(format=ValueFormat.JSON, schema="id bigint")
    orders = Orders(tmp_path, LayoutOptions(decoding=decoding, is_flat=is_flat))
    orders.load(1)
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", None, key=b"gone", partition=1)
    orders.load(3, 4)
    orders.delta().alter.add_columns([deltalake.Field("theirs", "string")])
    orders.delta().update({"theirs": "'x'"})
    orders.assert_whole()
    orders.load(5)
    optimize(orders.table, LocalEngine())
    orders.sort(SortColumn.KEY)
    orders.assert_whole()
    rows = orders.delta().to_pyarrow_table()
    assert sorted(rows["theirs"].to_pylist(), key=str) == [None, *["x"] * 4]
    orders.delta().update({"id": "7"} if is_flat else {"key": "null"}, predicate="theirs = 'x'")
    assert not orders.audited().is_equal


def vector_in_a_file(table: str, directory: str) -> dict[str, Any]:
    """The same vector in a file, whose name the log has as a UUID of zeros, in base 85."""
    inline = FIRST_ROW_GONE["deletionVector"]["pathOrInlineDv"]
    content = b"".join(
        sum(DIGITS.index(digit) * 85 ** (4 - place) for place, digit in enumerate(five)).to_bytes(4)
        for five in (inline[start : start + 5] for start in range(0, len(inline), 5))
    )[:34]
    path = Path(table, directory, f"deletion_vector_{UUID(int=0)}.bin")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\1" + len(content).to_bytes(4) + content + crc32(content).to_bytes(4))
    told = {"storageType": "u", "pathOrInlineDv": f"{directory}{'0' * 20}", "offset": 1}
    return {"deletionVector": {**FIRST_ROW_GONE["deletionVector"], **told}}


@pytest.mark.parametrize("directory", ["", "aB"])
def test_a_vacuum_leaves_the_files_of_deletion_vectors(tmp_path: Path, directory: str) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0, 1, 2, 3)
    orders.rerun()
    delete_first_row(orders, vector_in_a_file(orders.table, directory))
    before = set(Table(orders.table).sizes())
    report = vacuum(orders.table, SystemClock(), retention_ms=0)
    gone = before - set(Table(orders.table).sizes())
    assert gone == {*report.removed_paths}
    assert gone
    assert ottla.table.dataset(orders.table).count_rows() == 3
    orders.load(4)
    orders.rerun()
    orders.assert_whole()


def test_versions_with_deletion_vectors_are_read_as_they_were(tmp_path: Path) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0, 1, 2, 3)
    delete_first_row(orders)
    orders.load(4)
    counts = [ottla.table.dataset(orders.table, version=one).count_rows() for one in range(3)]
    assert counts == [4, 3, 4]
    assert ottla.table.dataset(orders.table, offsets={0: 1, 1: 1}).count_rows() == 1
    parts = ottla.table.data_files(orders.table)
    assert sum(one.row_count for one in parts) == 4
    optimize(orders.table, LocalEngine())
    assert len(ottla.table.files(orders.table)) == 1
    assert ottla.table.dataset(orders.table).count_rows() == 4


def named_by_number(fields: list[dict[str, Any]], numbers: Iterator[int]) -> None:
    """Each column, at any depth, is also called by the name that Delta keeps in files."""
    for field in fields:
        name, kind = field["name"], field["type"]
        field["metadata"] = {
            "delta.columnMapping.id": next(numbers),
            "delta.columnMapping.physicalName": name,
        }
        while isinstance(kind, dict):
            named_by_number(kind.get("fields", []), numbers)
            kind = kind.get("elementType")


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_with_mapped_columns_is_refused_by_name(tmp_path: Path, mode: str) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0, 1)
    log = Path(orders.table, "_delta_log")
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    changed = next(one["metaData"] for one in actions if "metaData" in one)
    schema = json.loads(changed["schemaString"])
    named_by_number(schema["fields"], itertools.count(1))
    changed["schemaString"] = json.dumps(schema)
    changed["configuration"] |= {
        "delta.columnMapping.mode": mode,
        "delta.columnMapping.maxColumnId": "20",
    }
    actions = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": changed}]
    (log / f"{1:020d}.json").write_text("".join(f"{json.dumps(one)}\n" for one in actions))
    works = (
        lambda: orders.load(2),
        orders.audited,
        orders.rerun,
        lambda: orders.sort(SortColumn.KEY),
        lambda: ottla.table.dataset(orders.table),
        lambda: ottla.table.files(orders.table),
    )
    for work in works:
        with pytest.raises(UserError, match=f"columnMapping.mode to {mode}, .*rewrites the files"):
            work()


def test_a_table_with_a_file_of_no_table_is_left_alone(tmp_path: Path) -> None:
    orders = Orders(tmp_path, LayoutOptions())
    orders.load(0)
    Path(orders.table, "notes.txt").write_bytes(b"mine")
    with pytest.raises(
        UserError, match=r"files that ottla did not load \(notes\.txt\); move them elsewhere"
    ):
        vacuum(orders.table, SystemClock(), retention_ms=0)
