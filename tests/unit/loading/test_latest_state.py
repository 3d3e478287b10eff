"""A table of the latest state: whatever is done to it, of each key the last record of the log."""

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.upserts import upserting
from ottla.tables.writing.engine import OnTasks, Work
from ottla.tables.writing.progress import Progress, Step

deltalake = pytest.importorskip("deltalake")

PARTITIONS = 3
JOBS = ("load", "load", "load", "rerun", "compact", "sort", "vacuum")
LATEST = LayoutOptions(upsert=Upsert())

Row = tuple[int, bytes, int, bytes]


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class StoppingEngine(LocalEngine):
    """Stops before a task: of those that write changes, or of those that merge them."""

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


class Model:
    """A log, its table, and what the table must have at each of its versions."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self._log, self._table = str(path / "log"), str(path / "table")
        self._records: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        with ottla.open(self._log) as log:
            log.create_topic("people", partitions=PARTITIONS)
        self.append()
        self._done("load")

    def append(self) -> None:
        """New keys, changed ones, deletes, and some of it twice."""
        with ottla.open(self._log) as log:
            for number in self.chance.choices(range(PARTITIONS), k=30):
                records = self._records[number]
                record = b"%d" % self.chance.randrange(40), b"%d" % len(records)
                if self.chance.random() < 0.3:
                    record = record[0], None
                if records and self.chance.random() < 0.2:
                    record = self.chance.choice(records[-8:])
                records.append(record)
                log.append("people", record[1], key=record[0], partition=number)

    def do(self, job: str) -> None:
        """Perhaps with a stop at one of its steps, or before one of its tasks."""
        step = self.chance.choice([*Step, None, None, None])
        task = self.chance.choice([None, None, self.chance.randrange(12)])
        with suppress(Stopped):
            self._done(job, step, task)

    def _done(self, job: str, step: Step | None = None, task: int | None = None) -> None:
        def stop(progress: Progress) -> None:
            if progress.step is step:
                raise Stopped

        place = LoadRoute(self._log, "people", self._table)
        engine = StoppingEngine(task)
        options = LoadOptions(
            layout=LATEST,
            min_partitions=self.chance.randrange(1, 7),
            target_size=self.chance.choice([4000, 2**27]),
        )
        match job:
            case "load":
                load(load_job(place, engine, stop, options))
            case "rerun":
                wanted = rerun_range(str(self.chance.randrange(30)), None, "people")
                with suppress(UserError):  # From an offset that is not there yet.
                    rerun(load_job(place, engine, stop, options), wanted)
            case "compact" | "sort":
                size = self.chance.choice([3000, 2**27])
                column = SortColumn.KEY if job == "sort" else None
                optimize(
                    self._table, engine, stop, OptimizeOptions(target_size=size, sort_by=column)
                )
            case "vacuum":
                vacuum(self._table, SystemClock(), retention_ms=0)

    def latest(self, ends: dict[int, int]) -> list[Row]:
        """Of each key of each partition the last record, unless that deletes it."""
        last: dict[tuple[int, bytes], tuple[int, bytes | None]] = {}
        for number, end in ends.items():
            for offset, (key, value) in enumerate(self._records[number][:end]):
                last[number, key] = offset, value
        return sorted(
            (number, key, offset, value)
            for (number, key), (offset, value) in last.items()
            if value is not None
        )

    def check(self) -> None:
        """Every version that is still there, since nothing was vacuumed."""
        table = Table(self._table)
        ends: dict[int, int] = {}
        for entry in table.entries():
            ends |= {one.partition: one.until_offset for one in entry.partitions}
            with suppress(FileNotFoundError):
                assert rows_of(self._table, entry.version) == self.latest(ends)
        assert rows_of(self._table) == self.latest(ends)
        log = open_log(topic_options(self._log, "people"))
        assert audit(table, log, "people", compare_all=True).differences == []


def rows_of(table: str, version: int | None = None) -> list[Row]:
    rows = deltalake.DeltaTable(table, version=version).to_pyarrow_table(
        columns=["partition", "key", "offset", "value"]
    )
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("keys_at_once", [3, upserting.KEYS_AT_ONCE])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 9))]
)
def test_whatever_is_done_to_a_table_it_is_the_latest_state_of_its_log(
    tmp_path: Path, seed: int, keys_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upserting, "KEYS_AT_ONCE", keys_at_once)
    model = Model(tmp_path, seed)
    for _ in range(20):
        if model.chance.random() < 0.7:
            model.append()
        model.do(model.chance.choice(JOBS))
        model.check()
