"""A table after whatever was done to it: the log up to where it was loaded, each record once.

In either format, in a directory and in an object store, at each of its versions, by the libraries
that others read it with.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.entries import Action
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import OnProgress, Progress, Step
from tests.support.stores import REGION, environment_of, new_bucket, served

deltalake = pytest.importorskip("deltalake")

PARTITIONS = 3
OTHERS = ("load", "load", "rerun", "compact", "sort")
JOBS = (*OTHERS, "vacuum")
COLUMNS = ["partition", "offset", "value"]

Reader = Callable[[str, int], Any]
"""Of a table's address and a version, the rows as a table of Arrow."""


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class Model:
    """A log, its table, and what the table must have at each of its versions."""

    def __init__(self, path: Path, table: str, readers: list[Reader], seed: int) -> None:
        self.chance = random.Random(seed)
        self._log, self._table, self._readers = str(path / "log"), table, readers
        self._values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._oldest = 0
        """The first commit whose version nothing was removed from."""
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=PARTITIONS, config={"retention.ms": -1})
        self.append()
        self._done("load")

    def append(self) -> None:
        with ottla.open(self._log) as log:
            for number in self.chance.choices(range(PARTITIONS), k=30):
                values = self._values[number]
                values.append(b"%d-%d" % (number, len(values)))
                log.append("orders", values[-1], partition=number)

    def do(self, job: str) -> None:
        """Perhaps with a stop at one of its steps, or another writer's job there."""
        step = self.chance.choice([*Step, None, None, None])
        other = self.chance.choice([None, *OTHERS])

        def at_step(progress: Progress) -> None:
            nonlocal step
            if progress.step is not step:
                return
            step = None
            if other is None:
                raise Stopped
            with in_turns():
                self._done(other)

        with suppress(Stopped), in_turns():
            self._done(job, at_step)

    def _done(self, job: str, progress: OnProgress = lambda _: None) -> None:
        place = LoadRoute(self._log, "orders", self._table)
        options = LoadOptions(min_partitions=self.chance.randrange(1, 7))
        match job:
            case "load":
                load(load_job(place, LocalEngine(), progress, options))
            case "rerun":
                begin = self.chance.randrange(3)
                wanted = rerun_range(
                    str(begin), str(begin + 1 + self.chance.randrange(5)), "orders"
                )
                rerun(load_job(place, LocalEngine(), progress, options), wanted)
            case "compact" | "sort":
                size = self.chance.choice([3000, 2**27])
                column = self.chance.choice(list(SortColumn)) if job == "sort" else None
                options_of_it = OptimizeOptions(target_size=size, sort_by=column)
                optimize(self._table, LocalEngine(), progress, options_of_it)
            case "vacuum":
                vacuum(self._table, SystemClock(), retention_ms=0)
                self._oldest = len(Table(self._table).entries()) - 1

    def check(self) -> None:
        """The last two versions, one of those before, and the table up to some offsets."""
        table = Table(self._table)
        ends: dict[int, int] = {}
        versions = []
        for entry in table.entries():
            if entry.action is Action.LOAD:
                ends |= {one.partition: one.until_offset for one in entry.partitions}
            if entry.commit_id >= self._oldest:
                versions.append((entry.version, dict(ends)))
        for version, expected in [*versions[-2:], self.chance.choice(versions)]:
            reader = self.chance.choice(self._readers)
            assert rows_of(reader(self._table, version)) == self._prefix(expected), reader
        past = {number: self.chance.randint(0, end) for number, end in ends.items()}
        found = ottla.table.dataset(self._table, offsets=past).to_table(COLUMNS)
        assert rows_of(found) == self._prefix(past)
        log = open_log(topic_options(self._log, "orders"))
        assert audit(table, log, "orders", compare_all=True).differences == []

    def _prefix(self, ends: dict[int, int]) -> list[tuple[int, int, bytes]]:
        return sorted(
            (number, offset, self._values[number][offset])
            for number, end in ends.items()
            for offset in range(end)
        )


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(COLUMNS).to_pylist())


@contextmanager
def in_turns() -> Iterator[None]:
    """Of two writers one may be told that it came second: at once, or when it commits."""
    try:
        yield
    except CommitTakenError:
        pass
    except UserError as error:
        if "another load into this table is running" not in str(error):
            raise


def delta_table(address: str, version: int) -> Any:
    options = {"allow_http": "true"} if "://" in address else None
    return deltalake.DeltaTable(address, version=version, storage_options=options)


def by_deltalake(address: str, version: int) -> Any:
    return delta_table(address, version).to_pyarrow_table(columns=COLUMNS)


def delta_by_polars(address: str, version: int) -> Any:
    import polars

    return polars.scan_delta(delta_table(address, version)).select(COLUMNS).collect().to_arrow()


def delta_by_duckdb(address: str, version: int) -> Any:
    import duckdb

    rows = delta_table(address, version).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        return connection.from_arrow(rows).to_arrow_table()


def iceberg_readers(catalog: Any) -> list[Reader]:
    def scan(version: int) -> Any:
        return catalog.load_table("shop.orders").scan(snapshot_id=version)

    def by_polars(_: str, version: int) -> Any:
        import polars

        table = catalog.load_table("shop.orders")
        return polars.scan_iceberg(table, snapshot_id=version).collect().to_arrow()

    def by_duckdb(_: str, version: int) -> Any:
        return scan(version).to_duckdb("orders").table("orders").to_arrow_table()

    return [lambda _, version: scan(version).to_arrow(), by_polars, by_duckdb]


@pytest.fixture(params=["", "s3"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of an object store; without a name for tables in directories."""
    if not request.param:
        yield ""
        return
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        yield new_bucket(port)


@pytest.fixture(params=["delta", "iceberg"])
def place(
    request: pytest.FixtureRequest, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[Reader]]]:
    """A table's address, and its readers."""
    if request.param == "delta":
        yield f"{bucket or tmp_path}/table", [by_deltalake, delta_by_polars, delta_by_duckdb]
        return
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    from tests.support.rest_catalog import rest_catalog

    # Its own planner is a package by itself.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    keys = {"s3.region": REGION, "s3.access-key-id": "anybody", "s3.secret-access-key": "anything"}
    if bucket:
        keys["s3.endpoint"] = os.environ["AWS_ENDPOINT_URL"]
    with rest_catalog(tmp_path, bucket or f"file://{tmp_path}/warehouse", **keys) as (uri, _):
        properties = {**keys, "type": "rest", "uri": uri}
        for name, value in properties.items():
            variable = name.upper().replace(".", "__").replace("-", "_")
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{variable}", value)
        yield "iceberg://lake/shop.orders", iceberg_readers(load_catalog("lake", **properties))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 9))]
)
def test_whatever_is_done_to_a_table_it_is_a_prefix_of_its_log_at_every_version(
    tmp_path: Path, bucket: str, place: tuple[str, list[Reader]], seed: int
) -> None:
    model = Model(tmp_path, *place, seed)
    for _ in range(8 if bucket else 15):
        if model.chance.random() < 0.6:
            model.append()
        model.do(model.chance.choice(JOBS))
        model.check()


@pytest.mark.slow
def test_small_partitions_share_files(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders", partitions=40)
        for number in range(40):
            log.append_many("orders", [b"%d" % one for one in range(50)], partition=number)
    place = LoadRoute(str(tmp_path / "log"), "orders", str(tmp_path / "table"))
    report = load(load_job(place, LocalEngine(), options=LoadOptions(min_partitions=4)))
    assert report.row_count == 2000
    assert len(ottla.table.files(str(tmp_path / "table"))) <= 5
    assert len(ottla.table.data_files(str(tmp_path / "table"))) >= 40
