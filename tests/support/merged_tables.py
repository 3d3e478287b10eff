"""Tables whose rows are merged by fields of values, beside a model of them: whatever is done to a
table, and wherever that stops.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.engine import OnTasks, Work
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError

PARTITIONS = 3
JOBS = ("load", "load", "load", "rerun", "optimize", "vacuum")
VALUES = Decoding(
    format=ValueFormat.JSON, schema="id int, country string, at bigint, op string", is_rescuing=True
)
KEYS = Decoding(format=ValueFormat.JSON, schema="id bigint, country string", is_rescuing=True)

Reader = Callable[[Sequence[str]], list[tuple[Any, ...]]]
"""The values of columns, by their names, in all rows of a table."""


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class StoppingEngine(LocalEngine):
    """Stops before a task."""

    def __init__(self, last: int | None) -> None:
        super().__init__()
        self._left = last

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        return super().run([self._counted(one) for one in tasks], on_tasks)

    def _counted(self, task: Work) -> Work:
        def run() -> Sequence[str]:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise Stopped
            return task()

        return run


class Change(NamedTuple):
    """A record that sets its row, deletes it, or deletes it without a value (`op` is `None`)."""

    partition: int
    offset: int
    id: int
    country: str
    at: int
    op: str | None

    @property
    def key(self) -> tuple[int, str]:
        return self.id, self.country


class Model:
    """A log, its table, and what the table must have at each of its versions."""

    def __init__(self, path: Path, table: str, seed: int, layout: LayoutOptions) -> None:
        self.chance = random.Random(seed)
        self._log, self._table, self._layout = str(path / "log"), table, layout
        assert layout.upsert is not None
        self._is_by_time = layout.upsert.version == "timestamp"
        self.changes: list[list[Change]] = [[] for _ in range(PARTITIONS)]
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=PARTITIONS, config={"retention.ms": -1})
        self.append()
        self.do("load", is_stopped=False)

    def append(self) -> None:
        """New keys, changed ones, late ones, and deletes of both kinds."""
        with ottla.open(self._log) as log:
            for number in self.chance.choices(range(PARTITIONS), k=25):
                some = self.changes[number]
                op = self.chance.choice(["set", "set", "set", "delete", None])
                if not self._is_by_time and op is None:
                    op = "delete"
                one = Change(
                    number,
                    len(some),
                    self.chance.randrange(-3, 3),
                    self.chance.choice(["de", "a\x00b", ""]),
                    self.chance.randrange(40),
                    op,
                )
                some.append(one)
                value = {name: getattr(one, name) for name in ("id", "country", "at", "op")}
                log.append(
                    "orders",
                    None if op is None else json.dumps(value).encode(),
                    key=json.dumps({"id": one.id, "country": one.country}).encode(),
                    partition=number,
                    timestamp_ms=one.at,
                )

    def do(self, job: str, *, is_stopped: bool = True) -> None:
        """Perhaps with a stop at one of its steps, or before one of its tasks."""
        step = self.chance.choice([*Step, None, None, None]) if is_stopped else None
        task = self.chance.choice([None, None, self.chance.randrange(12)]) if is_stopped else None

        def stop(progress: Progress) -> None:
            if progress.step is step:
                raise Stopped

        place = LoadRoute(self._log, "orders", self._table)
        engine = StoppingEngine(task)
        options = LoadOptions(
            layout=self._layout,
            min_partitions=self.chance.randrange(1, 5),
            target_size=self.chance.choice([4000, 2**27]),
        )
        with suppress(Stopped):
            match job:
                case "load":
                    load(load_job(place, engine, stop, options))
                case "rerun":
                    wanted = rerun_range(str(self.chance.randrange(30)), None, "orders")
                    with suppress(UserError):  # From an offset that is not there yet.
                        rerun(load_job(place, engine, stop, options), wanted)
                case "optimize":
                    size = self.chance.choice([3000, 2**27])
                    optimize(self._table, engine, stop, OptimizeOptions(target_size=size))
                case "vacuum":
                    vacuum(self._table, SystemClock(), retention_ms=0)

    def loaded(self) -> list[Change]:
        """The records that the table is of, in no order."""
        ends: dict[int, int] = {}
        for entry in Table(self._table).entries():
            ends |= {one.partition: one.until_offset for one in entry.partitions}
        return [one for number, end in ends.items() for one in self.changes[number][:end]]

    def latest(self) -> list[tuple[int, int]]:
        """Partition and offset of the last record of each key, unless that deletes it."""
        last: dict[tuple[int, str], Change] = {}
        for one in sorted(self.loaded(), key=_rank):
            last[one.key] = one
        return sorted((one.partition, one.offset) for one in last.values() if one.op == "set")

    def history(self) -> list[tuple[int, int, int, int | None, bool]]:
        """Of each record that deletes nothing its place, from when it is valid to when, and whether
        it still is.
        """
        by_key: dict[tuple[int, str], list[Change]] = {}
        for one in sorted(self.loaded(), key=_rank):
            by_key.setdefault(one.key, []).append(one)
        return sorted(
            (one.partition, one.offset, one.at, None if after is None else after.at, after is None)
            for some in by_key.values()
            for one, after in zip(some, [*some[1:], None], strict=True)
            if one.op == "set"
        )

    def differences(self) -> list[str]:
        """What an audit finds."""
        log = open_log(topic_options(self._log, "orders"))
        found = audit(Table(self._table), log, "orders", compare_all=True).differences
        return [one.text for one in found]


def _rank(one: Change) -> tuple[int, int, int]:
    return one.at, one.offset, one.partition


def by_duckdb(table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    import duckdb

    rows = deltalake.DeltaTable(table).to_pyarrow_dataset()
    names = ", ".join(f'"{one}"' for one in columns)
    with duckdb.connect() as connection:
        connection.register("orders", rows)
        return connection.execute(f"select {names} from orders").fetchall()


@contextmanager
def merged_table(
    kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Reader]]:
    """The address of a table to be, and who reads it."""
    if kind == "delta":
        table = str(path / "table")
        yield table, lambda columns: by_duckdb(table, columns)
        return
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{path}/catalog.db",
        "warehouse": f"file://{path}/warehouse",
    }
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")

    def by_pyiceberg(columns: Sequence[str]) -> list[tuple[Any, ...]]:
        rows = catalog.load_table("shop.orders").scan().to_arrow()
        return list(zip(*(rows[one].to_pylist() for one in columns), strict=True))

    yield "iceberg://lake/shop.orders", by_pyiceberg


class Orders:
    """A log of JSON values in one partition, and its table."""

    def __init__(self, path: Path, upsert: Upsert, partitions: int = 1, **layout: Any) -> None:
        self._log, self.table = str(path / "log"), str(path / "table")
        self._layout = LayoutOptions(**{"decoding": VALUES, "upsert": upsert, **layout})
        with ottla.open(self._log) as log:
            if "orders" not in log.topics():
                log.create_topic("orders", partitions=partitions)

    def load(self, *values: Any, on_error: OnError = OnError.QUARANTINE) -> LoadReport:
        with ottla.open(self._log) as log:
            for one in values:
                log.append("orders", None if one is None else json.dumps(one).encode())
        place = LoadRoute(self._log, "orders", self.table)
        options = LoadOptions(layout=self._layout, on_error=on_error)
        return load(load_job(place, LocalEngine(), options=options))

    def rows(self) -> list[dict[str, Any]]:
        found = deltalake.DeltaTable(self.table).to_pyarrow_table(columns=["value"])
        rows = found["value"].to_pylist()
        return sorted(
            ({name: one[name] for name in one if name != "_rescued"} for one in rows),
            key=lambda one: str(one["id"]),
        )

    def reasons(self) -> list[str]:
        found = ottla.table.quarantine(self.table).to_table()
        return list(found.sort_by("offset")["reason"].to_pylist())

    def differences(self) -> list[str]:
        log = open_log(topic_options(self._log, "orders"))
        found = audit(Table(self.table), log, "orders", compare_all=True).differences
        return [one.text for one in found]


def order(number: int | None, at: int | None = 0, country: str = "de", **more: Any) -> Any:
    return {"id": number, "country": country, "at": at, "op": None, **more}
