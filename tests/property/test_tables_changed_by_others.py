"""Tables that ottla loads and other programs change, in any order, with kills in between.

An audit says that a table equals its log if, and only if, DuckDB finds in it what the log has but
for what was forgotten; a rerun restores what others took or brought back.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import deltalake
import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import StringType

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.forgetting import ForgetOptions, forget
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import OnProgress, Progress, Step
from tests.support.iceberg_deletes import delete_equal, delete_positions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records"),
]

STEPS = 10
PERSONS = 5
JOBS = ("load", "load", "rerun", "merge", "sort", "vacuum", "forget", "others", "others", "others")
LAYOUT = LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="id bigint, who bigint"))

Others = Callable[[random.Random], None]
"""Changes the table as another program would."""


class Killed(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class Model:
    """A log, its table, and the rows that the table must have."""

    def __init__(self, path: Path, table: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self._log, self.table = str(path / "log"), table
        self._records: list[list[int]] = [[], []]
        """The identifiers by partition and offset."""
        self._forgotten: set[int] = set()
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=2, config={"retention.ms": -1})
        self.append()
        self._run("load", lambda _: None)

    def append(self) -> None:
        with ottla.open(self._log) as log:
            for number in self.chance.choices(range(2), k=12):
                name = sum(map(len, self._records))
                value = json.dumps({"id": name, "who": name % PERSONS}).encode()
                log.append("orders", value, key=b"k", partition=number)
                self._records[number].append(name)

    def do(self, job: str) -> None:
        """Perhaps with a kill at one of its steps."""
        at = self.chance.choice([*Step, *[None] * len(Step)])

        def kill(progress: Progress) -> None:
            if progress.step is at:
                raise Killed

        with suppress(Killed):
            self._run(job, kill)

    def _run(self, job: str, progress: OnProgress) -> None:
        match job:
            case "load":
                load(self._job(progress))
            case "rerun":
                rerun(self._job(progress), rerun_range(None, None, "orders"))
            case "merge" | "sort":
                column = SortColumn.TIMESTAMP if job == "sort" else None
                optimize(self.table, LocalEngine(), progress, OptimizeOptions(sort_by=column))
            case "vacuum":
                vacuum(self.table, SystemClock(), retention_ms=0)
            case "forget":
                self._forget(progress)

    def _job(self, progress: OnProgress) -> LoadJob:
        options = LoadOptions(layout=LAYOUT)
        route = LoadRoute(self._log, "orders", self.table)
        return load_job(route, LocalEngine(), progress, options)

    def _forget(self, progress: OnProgress) -> None:
        before = len(Table(self.table).entries())
        who = self.chance.randrange(PERSONS)
        there = {one[2] for one in self.found() if one[2] % PERSONS == who}
        options = ForgetOptions(condition=f"value.who = {who}", by="clerk")
        try:
            forget(self.table, LocalEngine(), options, progress)
        finally:
            if len(Table(self.table).entries()) > before:
                self._forgotten |= there

    def mend(self) -> None:
        """Loads again what others took; duplicates would have to be deleted first."""
        self._run("rerun", lambda _: None)
        assert self.is_audited_equal()

    def is_audited_equal(self) -> bool:
        log = open_log(topic_options(self._log, "orders"))
        return audit(Table(self.table), log, "orders", compare_all=True).is_equal

    def found(self) -> list[tuple[int, int, int, bool]]:
        """The rows as DuckDB reads them; whether they have their timestamp."""
        rows = ottla.table.dataset(self.table)
        with duckdb.connect() as connection:
            return sorted(
                connection.from_arrow(rows)
                .project('partition, "offset", value.id, timestamp is not null')
                .fetchall()
            )

    def expected(self) -> list[tuple[int, int, int, bool]]:
        ends = {
            number: one.until_offset for number, one in Table(self.table).state().loaded.items()
        }
        return [
            (number, offset, name, True)
            for number, records in enumerate(self._records)
            for offset, name in enumerate(records[: ends.get(number, 0)])
            if name not in self._forgotten
        ]


def by_deltalake(address: str) -> Others:
    def change(chance: random.Random) -> None:
        table = deltalake.DeltaTable(address)
        there = table.to_pyarrow_table(columns=["partition", "offset"])
        place = there.slice(chance.randrange(max(1, there.num_rows)), 1)
        one = (place.to_pylist() or [{"partition": 0, "offset": 0}])[0]
        where = f"partition = {one['partition']} and offset >= {one['offset']}"
        same = "s.partition = t.partition and s.offset = t.offset"
        actions: list[Callable[[], object]] = [
            table.optimize.compact,
            lambda: table.optimize.z_order(["offset"]),
            lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
            table.create_checkpoint,
            lambda: table.alter.set_table_description("of others"),
            lambda: table.alter.add_columns([deltalake.Field("note", "string")]),
            lambda: deltalake.write_deltalake(table, table.to_pyarrow_table(), mode="overwrite"),
            lambda: table.delete(where),
            lambda: table.update(updates={"timestamp": "null"}, predicate=where),
            lambda: table.restore(chance.randrange(table.version() + 1)),
            lambda: table.merge(place, same, "s", "t").when_matched_delete().execute(),
        ]
        # Some versions are gone, and a column is added once.
        with suppress(DeltaError):
            chance.choice(actions)()

    return change


def by_pyiceberg(catalog: Catalog) -> Others:
    def change(chance: random.Random) -> None:
        table = catalog.load_table("shop.orders")
        offset = chance.randrange(20)
        field = table.schema().find_field("offset").field_id
        files = table.inspect.data_files()["file_path"].to_pylist()
        actions: list[Callable[[], object]] = [
            lambda: table.overwrite(table.scan().to_arrow()),
            lambda: table.transaction().set_properties({"of": "others"}).commit_transaction(),
            lambda: with_column(table),
            lambda: table.delete(f"offset >= {offset}"),
            lambda: delete_positions(table, {chance.choice(files): [0]}),
            lambda: delete_equal(table, pa.table({"offset": pa.array([offset])}), [field]),
            lambda: table.overwrite(table.scan().to_arrow().slice(0, 1)),
        ]
        # It reads no table with equality deletes, and a table may have no file left.
        with suppress(ValueError, IndexError):
            chance.choice(actions)()

    return change


def with_column(table: Any) -> None:
    with table.update_schema() as update:
        update.add_column("note", StringType())


@pytest.fixture(params=["delta", "iceberg"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Others]]:
    if request.param == "delta":
        address = str(tmp_path / "table")
        yield address, by_deltalake(address)
        return
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    yield "iceberg://lake/shop.orders", by_pyiceberg(catalog)


def differing(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    return sorted(set(ours) ^ set(theirs))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 12))]
)
def test_an_audit_is_equal_exactly_if_duckdb_finds_what_the_log_has(
    tmp_path: Path, place: tuple[str, Others], seed: int
) -> None:
    address, others = place
    check_every_step(Model(tmp_path, address, seed), others)


def check_every_step(
    model: Model, others: Others, jobs: Sequence[str] = JOBS, steps: int = STEPS
) -> None:
    """Does jobs at random, and compares the table and its audit with the log after each."""
    done = []
    for _ in range(steps):
        if model.chance.random() < 0.5:
            model.append()
        done.append(job := model.chance.choice(jobs))
        if job == "others":
            others(model.chance)
        else:
            model.do(job)
        found, expected = model.found(), model.expected()
        is_equal = model.is_audited_equal()
        assert is_equal is (found == expected), (done, differing(found, expected))
        if not is_equal and model.chance.random() < 0.5:
            model.mend()
            assert model.found() == model.expected(), done
    model.mend()
    assert model.found() == model.expected(), done
