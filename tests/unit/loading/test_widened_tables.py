"""Tables whose `int` columns become `bigint`: no file stays narrower, whatever comes between."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.events import pass_over
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import Action
from ottla.tables.formats.delta import DeltaLog
from ottla.tables.layout import LayoutOptions
from ottla.tables.ledger.ledger import Ledger
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import OnProgress, Progress
from ottla.tables.writing.widening import Widening
from tests.support.patience import PATIENCE_S
from tests.support.stores import environment_of, new_bucket, served

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow

NARROW = "id int, who struct<ages: array<int>>"
OTHER = "id int, who struct<ages: array<int>>, note int"
WIDE = "id bigint, who struct<ages: array<bigint>>, note string"
LARGE = 2**40


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class People:
    """A log of keyed values, and its table."""

    def __init__(self, path: Path, *, is_latest: bool = False, table: str | None = None) -> None:
        self._log, self.table = str(path / "log"), table or str(path / "table")
        self._is_latest = is_latest
        self._expected: dict[int, int] = {}
        self._latest: dict[bytes, int] = {}
        with ottla.open(self._log) as log:
            log.create_topic("people", partitions=2)
        for number in range(2):
            self.append(b"k%d" % number, number)
            self.append(b"k9", number)
            self.load(NARROW)

    def copied(self, path: Path) -> "People":
        shutil.copytree(Path(self.table).parent, path)
        found = copy.deepcopy(self)
        found._log, found.table = str(path / "log"), str(path / "table")
        return found

    def append(self, key: bytes, number: int) -> None:
        value = {"id": number, "who": {"ages": [number, None]}}
        with ottla.open(self._log) as log:
            made = log.append("people", json.dumps(value).encode(), key=key, partition=1)
        offset = made.offset
        self._expected[offset] = number
        self._latest[key] = offset

    def job(self, schema: str | None, progress: OnProgress = pass_over) -> LoadJob:
        decoding = Decoding(format=ValueFormat.JSON, schema=schema) if schema else None
        layout = LayoutOptions(decoding=decoding, upsert=Upsert() if self._is_latest else None)
        place = LoadRoute(self._log, "people", self.table)
        return load_job(place, LocalEngine(), progress, LoadOptions(layout=layout))

    def load(self, schema: str | None, progress: OnProgress = pass_over) -> LoadReport:
        return load(self.job(schema, progress))

    def assert_whole(self) -> None:
        """The table is its log up to where it was loaded, for other programs as well."""
        directory = Table(self.table)
        end = directory.state().loaded[1].until_offset
        wanted = {offset: number for offset, number in self._expected.items() if offset < end}
        if self._is_latest:
            assert end == len(self._expected)
            wanted = {offset: wanted[offset] for offset in self._latest.values()}
        rows = deltalake.DeltaTable(self.table).to_pyarrow_table().to_pylist()
        found = {row["offset"]: row["value"] for row in rows}
        assert len(rows) == len(found)
        assert {offset: value["id"] for offset, value in found.items()} == wanted
        assert all(value["who"]["ages"] == [value["id"], None] for value in found.values())
        polars = pytest.importorskip("polars")
        by_polars = polars.scan_delta(self.table).select("offset", "value").collect().to_dicts()
        assert {row["offset"]: row["value"] for row in by_polars} == found
        log = open_log(topic_options(self._log, "people"))
        assert audit(directory, log, "people", compare_all=True).differences == []

    def assert_of_its_columns(self) -> None:
        """Each file has the types that the table's log says, so that no reader must widen."""
        column = self.value_column()
        for path in deltalake.DeltaTable(self.table).file_uris():
            has = parquet.read_schema(path).field("value").type
            assert [one.type for one in has] == [column.field(one.name).type for one in has]

    def value_column(self) -> Any:
        return pa.schema(deltalake.DeltaTable(self.table).schema()).field("value").type

    def assert_wide(self) -> None:
        for path in deltalake.DeltaTable(self.table).file_uris():
            value = parquet.read_schema(path).field("value").type
            assert value.field("id").type == pa.int64()
            assert value.field("who").type.field("ages").type.value_type == pa.int64()

    def actions(self) -> list[Action]:
        return [one.action for one in Table(self.table).entries()]


STOPS = [
    (Widening, "write", 1, True),
    # Delta's transactions change the schema, the files, and bring the rows.
    (deltalake.DeltaTable, "create_write_transaction", 1, False),
    (deltalake.DeltaTable, "create_write_transaction", 1, True),
    (deltalake.DeltaTable, "create_write_transaction", 2, True),
    (Ledger, "append", 1, True),
    (DeltaLog, "commit", 2, True),
]
"""Calls at which a writer is stopped: of what, which, which one of them, and whether after it."""


def stopping(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, is_after: bool
) -> None:
    real, calls = getattr(owner, name), [0]

    def call(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == number and not is_after:
            raise Stopped
        result = real(*arguments, **named)
        if calls[0] == number:
            raise Stopped
        return result

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize(
    ("is_latest", "again"),
    [(False, WIDE), (False, None), (True, None)],
    ids=["wide", "as-before", "latest"],
)
def test_a_load_stopped_anywhere_leaves_a_table_that_any_load_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_latest: bool, again: str | None
) -> None:
    first = People(tmp_path / "first", is_latest=is_latest)
    for turn, stop in enumerate(STOPS):
        people = first.copied(tmp_path / f"{turn}")
        people.append(b"k9", 7)
        with monkeypatch.context() as patch:
            stopping(patch, *stop)
            with pytest.raises(Stopped):
                people.load(WIDE)
        if not is_latest:
            people.assert_whole()
        people.append(b"k1", 8)
        people.load(again)
        people.assert_whole()
        people.assert_of_its_columns()
        people.append(b"k2", LARGE)
        people.load(WIDE)
        people.assert_whole()
        people.assert_wide()
        vacuum(people.table, SystemClock(), retention_ms=0)
        left = {str(path) for path in (tmp_path / f"{turn}/table/data").rglob("*.parquet")}
        assert left == set(ottla.table.files(people.table))


@pytest.fixture
def half_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> People:
    """Killed between the wider columns and their files."""
    people = People(tmp_path)
    people.append(b"k9", 7)
    with monkeypatch.context() as patch:
        stopping(patch, deltalake.DeltaTable, "create_write_transaction", 1, True)
        with pytest.raises(Stopped):
            people.load(WIDE)
    assert people.value_column().field("id").type == pa.int64()
    return people


@pytest.mark.parametrize("schema", [None, NARROW, OTHER, WIDE])
def test_any_load_takes_back_a_wider_column_whose_files_did_not_come(
    half_wide: People, schema: str | None
) -> None:
    half_wide.load(schema)
    half_wide.assert_whole()
    half_wide.assert_of_its_columns()
    half_wide.append(b"k9", LARGE if schema == WIDE else 8)
    half_wide.load(None)
    half_wide.assert_whole()
    half_wide.assert_of_its_columns()


@pytest.mark.parametrize("line_count", [0, 1, 2])
def test_an_entry_of_wider_columns_that_a_power_cut_tore_is_removed(
    half_wide: People, line_count: int
) -> None:
    *_, entry = sorted(Path(half_wide.table, "_delta_log").glob("*.json"))
    lines = entry.read_text().splitlines(keepends=True)
    assert len(lines) > line_count
    entry.write_text("".join(lines[:line_count]))
    half_wide.load(None)
    half_wide.assert_whole()
    half_wide.assert_of_its_columns()


def by_vacuum(table: str) -> None:
    vacuum(table, SystemClock(), retention_ms=0)


@pytest.mark.parametrize("command", [by_vacuum, lambda table: optimize(table, LocalEngine())])
def test_other_commands_take_it_back_too(
    half_wide: People, command: Callable[[str], object]
) -> None:
    command(half_wide.table)
    half_wide.assert_whole()
    half_wide.assert_of_its_columns()


def test_files_that_another_program_has_rewritten_keep_the_wider_column(half_wide: People) -> None:
    deltalake.DeltaTable(half_wide.table).optimize.compact()
    for schema in (None, WIDE):
        half_wide.append(b"k9", 8)
        half_wide.load(schema)
        half_wide.assert_whole()
    half_wide.assert_wide()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield new_bucket(port)


def after_the_columns(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Acts between a widening's two transactions."""
    real, left = deltalake.DeltaTable.create_write_transaction, [act]

    def call(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        if left:
            left.pop()()

    patch.setattr(deltalake.DeltaTable, "create_write_transaction", call)


def test_a_widening_begins_again_when_another_load_takes_its_columns_back(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(tmp_path, table=f"{bucket}/people")
    people.append(b"k9", 7)
    after_the_columns(monkeypatch, lambda: people.load(None))
    people.load(WIDE)
    assert people.actions()[-1] is Action.LOAD
    people.append(b"k9", LARGE)
    people.load(WIDE)
    people.assert_whole()


def test_columns_are_not_taken_back_once_their_files_have_come(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(tmp_path, table=f"{bucket}/people")
    people.append(b"k9", LARGE)
    is_asked, is_wide = Event(), Event()
    real = deltalake.DeltaTable.create_write_transaction

    def late(*arguments: Any, **named: Any) -> None:
        if current_thread() is other:
            is_asked.set()
            assert is_wide.wait(PATIENCE_S)
        real(*arguments, **named)

    def start_other() -> None:
        other.start()
        assert is_asked.wait(PATIENCE_S)

    other = Thread(target=DeltaLog(Table(people.table).store).repair, args=(None,))
    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", late)
    after_the_columns(monkeypatch, start_other)
    people.load(WIDE)
    is_wide.set()
    other.join()
    people.assert_whole()
    assert people.value_column().field("id").type == pa.int64()


def test_files_are_rewritten_by_a_commit_of_the_same_rows(tmp_path: Path) -> None:
    people = People(tmp_path)
    before = Table(people.table).state()
    people.append(b"k", LARGE)
    shown: list[Progress] = []
    assert people.load(WIDE, shown.append).commit_id == before.commit_count + 1
    people.assert_whole()
    people.assert_wide()
    assert people.actions()[-2:] == [Action.OPTIMIZE, Action.LOAD]
    widening = [one for one in shown if one.is_widening]
    assert widening[-1].offset_count == 4
    assert widening[-1].tasks_done == widening[-1].task_count > 0
    old = ottla.table.dataset(people.table, offsets={1: 3}).to_table(["offset"])
    assert sorted(old["offset"].to_pylist()) == [0, 1, 2]
    people.append(b"k", LARGE + 1)
    people.load(WIDE)
    assert people.actions()[-2:] == [Action.LOAD, Action.LOAD]


def test_readers_that_follow_a_table_see_no_change_of_its_rows(tmp_path: Path) -> None:
    people = People(tmp_path)
    people.append(b"k", LARGE)
    people.load(WIDE)
    log = sorted((tmp_path / "table/_delta_log").glob("*.json"))
    removed = [
        json.loads(line)["remove"]
        for one in log
        for line in one.read_text().splitlines()
        if "remove" in json.loads(line)
    ]
    assert len(removed) == 2
    assert not any(one["dataChange"] for one in removed)


@pytest.mark.parametrize("column", [None, SortColumn.KEY])
def test_files_that_were_put_together_stay_in_their_order(
    tmp_path: Path, column: SortColumn | None
) -> None:
    people = People(tmp_path)
    optimize(people.table, LocalEngine(), options=OptimizeOptions(sort_by=column))
    (path,) = ottla.table.files(people.table)
    before = parquet.read_table(path, partitioning=None)["offset"].to_pylist()
    order = parquet.read_metadata(path).row_group(0).sorting_columns
    people.append(b"k", LARGE)
    people.load(WIDE)
    wide, _ = ottla.table.files(people.table)
    assert parquet.read_table(wide, partitioning=None)["offset"].to_pylist() == before
    assert parquet.read_metadata(wide).row_group(0).sorting_columns == order
    people.assert_whole()


def test_a_rerun_with_a_wider_schema_replaces_rows_of_files_just_rewritten(tmp_path: Path) -> None:
    people = People(tmp_path)
    rerun(people.job(WIDE), rerun_range("1", "3", "people"))
    people.assert_whole()
    people.assert_wide()
    assert people.actions()[-2:] == [Action.OPTIMIZE, Action.RERUN]


def by_others(table: str) -> None:
    deltalake.DeltaTable(table).optimize.compact()


def by_a_compaction(table: str) -> None:
    with suppress(Exception):
        optimize(table, LocalEngine())


@pytest.mark.parametrize("meanwhile", [by_others, by_a_compaction])
def test_another_writer_meanwhile_is_waited_out_or_has_it_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[str], None]
) -> None:
    people = People(tmp_path)
    people.append(b"k", LARGE)
    real, calls = Widening.write, []

    def write(widening: Widening, files: Any) -> list[str]:
        done = real(widening, files)
        calls.append(done)
        if len(calls) == 1:
            meanwhile(people.table)
        return done

    monkeypatch.setattr(Widening, "write", write)
    people.load(WIDE)
    people.assert_whole()
    people.assert_wide()
    assert len(calls) == (2 if meanwhile is by_others else 1)
