"""Rows deleted on purpose: gone from the table, recorded in it, and never there again."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("deltalake")
pytest.importorskip("duckdb")

import deltalake
import pyarrow.compute as pc
import pyarrow.parquet as pq

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.loading.auditing.audit import audit
from ottla.loading.auditing.report import AuditReport
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import redrive, rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import parse_partitioning
from ottla.tables.entries import FileRole
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.forgetting import ForgetOptions, ForgetReport, forget
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError

pytestmark = pytest.mark.slow

DECODING = Decoding(format=ValueFormat.JSON, schema="person bigint, n bigint")
LAYOUTS = {
    "rows": LayoutOptions(decoding=DECODING),
    "flat": LayoutOptions(decoding=DECODING, is_flat=True),
    "partitioned": LayoutOptions(
        decoding=DECODING, partitioning=parse_partitioning("value.person", "timestamp")
    ),
    "latest": LayoutOptions(decoding=DECODING, upsert=Upsert()),
}


class Killed(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class People:
    """Records of persons 0 to 6, in two partitions; one of thirteen cannot be decoded."""

    def __init__(self, path: Path, layout: LayoutOptions, table: str | None = None) -> None:
        self.log, self.table = str(path / "log"), table or str(path / "table")
        self._layout = layout
        self.person = "person" if layout.is_flat else "value.person"
        with ottla.open(self.log) as log:
            log.create_topic("t", partitions=2)
        self.load(range(30))
        self.load(range(30, 60))

    def job(self) -> LoadJob:
        options = LoadOptions(layout=self._layout, on_error=OnError.QUARANTINE)
        return load_job(LoadRoute(self.log, "t", self.table), LocalEngine(), options=options)

    def load(self, numbers: "range | list[int]") -> None:
        with ottla.open(self.log) as log:
            for number in numbers:
                value = json.dumps({"person": number % 7, "n": number}).encode()
                if number % 13 == 12:
                    value = b"person %d" % (number % 7)
                log.append("t", value, key=b"k%d" % (number % 7), partition=number % 2)
        load(self.job())

    def forget(self, condition: str, role: FileRole = FileRole.ROWS) -> ForgetReport:
        options = ForgetOptions(condition=condition, by="clerk", reason="asked for", role=role)
        return forget(self.table, LocalEngine(), options)

    def persons(self) -> list[int]:
        rows = ottla.table.dataset(self.table).to_table()
        values = rows["person"] if self._layout.is_flat else rows["value"].combine_chunks()
        found = values if self._layout.is_flat else values.field("person")
        return sorted(found.to_pylist())

    def audited(self) -> AuditReport:
        log = open_log(topic_options(self.log, "t"))
        return audit(Table(self.table), log, "t", compare_all=True)

    def rerun(self) -> None:
        rerun(self.job(), rerun_range(None, None, "t"))


@pytest.mark.parametrize("kind", [*LAYOUTS, "iceberg"])
def test_forgotten_rows_stay_away_whatever_is_done_and_audits_know_of_them(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = None
    if kind == "iceberg":
        pytest.importorskip("sqlalchemy")
        monkeypatch.setenv("HOME", str(tmp_path))
        address = "iceberg://lake/shop.people"
    people = People(tmp_path, LAYOUTS.get(kind, LAYOUTS["rows"]), address)
    before = people.persons()
    report = people.forget(f"{people.person} = 3")
    assert report.row_count == before.count(3) > 0
    kept = [one for one in before if one != 3]
    works = (
        lambda: None,
        people.rerun,
        lambda: optimize(people.table, LocalEngine()),
        lambda: optimize(
            people.table, LocalEngine(), options=OptimizeOptions(sort_by=SortColumn.TIMESTAMP)
        ),
        lambda: vacuum(people.table, SystemClock(), retention_ms=0),
        people.rerun,
    )
    for work in works:
        work()
        assert people.persons() == kept
        audited = people.audited()
        assert audited.differences == []
        assert (audited.deletions, audited.forgotten) == (1, report.row_count)
    assert people.forget(f"{people.person} = 3").commit_id is None
    people.load([3, 3 + 14])
    assert people.persons().count(3) >= 1
    people.forget(f"{people.person} in (3, 5)")
    people.rerun()
    assert not {3, 5} & set(people.persons())
    assert people.audited().is_equal


def test_a_deletion_says_who_when_how_many_why_and_which(tmp_path: Path) -> None:
    people = People(tmp_path, LAYOUTS["rows"])
    condition = "value.person = 3"
    people.forget(condition)
    entry = Table(people.table).entries()[-1]
    assert entry.forgotten is not None
    assert (entry.forgotten.by, entry.forgotten.reason) == ("clerk", "asked for")
    assert (entry.forgotten_count, entry.forgotten.condition) == (8, None)
    assert entry.committed_ms
    kind, salt, digest = str(entry.forgotten.condition_hash).split(":")
    assert hashlib.new(kind, f"{salt}{condition}".encode()).hexdigest() == digest
    files = ottla.table.data_files(people.table, FileRole.FORGOTTEN)
    opened = Table(people.table).files
    places = {(one.partition, offset) for one in files for offset in opened.offsets(one).tolist()}
    assert places == {(n % 2, n // 2) for n in range(60) if n % 7 == 3 and n % 13 != 12}
    stored = Path(people.table, "_ottla/ledger/00000000000000000002.json").read_text()
    assert condition not in stored


def test_no_file_has_a_forgotten_row_after_a_vacuum(tmp_path: Path) -> None:
    people = People(tmp_path, LayoutOptions())
    person = b'{"person": 3, "n": 3}'
    people.forget(f"value = '{person.decode()}'")

    def stored() -> set[bytes]:
        files = Path(people.table, "data").rglob("*.parquet")
        return {one for file in files for one in pq.read_table(file)["value"].to_pylist()}

    assert person in stored()
    vacuum(people.table, SystemClock(), retention_ms=0)
    assert person not in stored()


@pytest.mark.parametrize("layout", [LAYOUTS["rows"], LAYOUTS["latest"]], ids=["rows", "latest"])
def test_what_is_in_quarantine_is_forgotten_too(tmp_path: Path, layout: LayoutOptions) -> None:
    people = People(tmp_path, layout)
    before = people.persons()
    assert people.forget("value = 'person 5'", FileRole.QUARANTINE).row_count == 1
    assert people.audited().differences == []
    assert redrive(people.job()) == [], "it is not set aside again"
    people.rerun()
    assert people.persons() == before
    assert people.audited().is_equal
    beside = deltalake.DeltaTable(f"{people.table}/_ottla/quarantine").to_pyarrow_table()
    assert b"person 5" not in beside["value"].to_pylist()
    assert len(beside) == 3


def test_a_deletion_that_is_killed_is_done_or_not(tmp_path: Path) -> None:
    people = People(tmp_path, LAYOUTS["latest"])
    before = people.persons()
    assert 3 in before
    options = ForgetOptions(condition="value.person = 3", by="clerk")
    for step in (Step.CLAIMED, Step.WRITING, Step.VERIFIED, Step.SYNCED, Step.COMMITTED):

        def kill(progress: Progress, at: Step = step) -> None:
            if progress.step is at:
                raise Killed

        with pytest.raises(Killed):
            forget(people.table, LocalEngine(), options, kill)
        is_done = step is Step.COMMITTED
        assert people.persons() == ([one for one in before if one != 3] if is_done else before)
        assert people.audited().is_equal


@pytest.mark.parametrize("is_history", [False, True])
def test_a_record_that_comes_late_is_new_though_a_later_row_was_forgotten(
    tmp_path: Path, is_history: bool
) -> None:
    upsert = Upsert(key=("value.person",), version="value.n", is_history=is_history)
    people = People(tmp_path, LayoutOptions(decoding=DECODING, upsert=upsert))
    people.forget("value.person = 3")
    with ottla.open(people.log) as log:
        log.append("t", b'{"person": 3, "n": 1}', key=b"k3", partition=0)
    load(people.job())
    assert people.persons().count(3) == 1
    assert people.audited().differences == []
    people.rerun()
    assert people.audited().differences == []


def test_a_ledger_without_the_deletion_is_completed_from_the_tables_log(tmp_path: Path) -> None:
    people = People(tmp_path, LAYOUTS["rows"])
    people.forget("value.person = 3")
    Path(people.table, "_ottla/ledger/00000000000000000002.json").unlink()
    people.rerun()
    assert 3 not in people.persons()
    assert people.audited().is_equal


def test_forgotten_rows_that_another_program_brought_back_are_named(tmp_path: Path) -> None:
    people = People(tmp_path, LAYOUTS["rows"])
    before = deltalake.DeltaTable(people.table).to_pyarrow_table()
    people.forget("value.person = 3 and partition = 1")
    again = (pc.field("partition") == 1) & (pc.field("offset") == 1)
    deltalake.write_deltalake(people.table, before.filter(again), mode="append")
    found = people.audited().differences
    assert any("was deleted on purpose, and is there again" in one.text for one in found)
    people.forget("value.person = 3 and partition = 1")
    people.rerun()
    assert people.audited().is_equal


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("value.nobody = 3", "--where: Binder Error"),
        ("value.person =", "--where: Parser Error"),
        ("true; drop table x", "--where: Parser Error"),
        ("order = 1", 'are quoted, "at"'),
        ("value.person", "'value.person' is .*, and not true or false: write a comparison"),
        ("1", "'1' is int32, and not true or false"),
        ('"offset" = (SELECT max("offset") FROM rows)', "name rows does not exist; a condition is"),
        ("is_person(value.person)", "is_person does not exist; a condition is about the columns"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_refused(
    tmp_path: Path, condition: str, told: str
) -> None:
    people = People(tmp_path, LAYOUTS["rows"])
    with pytest.raises(UserError, match=told):
        people.forget(condition)
    assert len(Table(people.table).entries()) == 2


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["table", "forget", *arguments])


def test_the_command_shows_what_it_would_delete_and_then_does_it(tmp_path: Path) -> None:
    people = People(tmp_path, LAYOUTS["rows"])
    asked = (people.table, "--where", "value.person = 3")
    found = run(*asked, "--dry-run", "--json")
    assert json.loads(found.stdout) == {
        "table": people.table,
        "is_done": False,
        "commit": None,
        "rows": 8,
        "rows_by_partition": {"0": 3, "1": 5},
    }
    assert "would delete 8 rows" in run(*asked, "--dry-run").output
    done = json.loads(run(*asked, "--yes", "--json", "--vacuum", "--by", "me").stdout)
    assert (done["rows"], done["commit"], done["files_replaced"]) == (8, 2, 2)
    assert done["files_removed"] >= 2
    assert "no row" in run(*asked, "--yes").output
    history = CliRunner().invoke(cli, ["table", "history", people.table, "--json", "-n", "1"])
    last = json.loads(history.stdout)
    assert (last["action"], last["rows_forgotten"], last["forgotten"]["by"]) == ("forget", 8, "me")
    assert "1 deletion" in (
        CliRunner().invoke(cli, ["audit", people.log, "t", "--table", people.table]).output
    )
