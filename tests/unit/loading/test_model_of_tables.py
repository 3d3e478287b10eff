"""A table after whatever was done to it: the log up to where it was loaded, each record once."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.loading.auditing.audit import audit
from ottla.loading.compaction import CompactOptions, compact
from ottla.loading.job import LoadOptions, LoadPlace, Progress, Step
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.loading.sorting import SortColumn
from ottla.sources.opening import open_log, topic_options
from ottla.tables.table_directory import TableDirectory
from ottla.tables.vacuum import vacuum

deltalake = pytest.importorskip("deltalake")

PARTITIONS = 3
JOBS = ("load", "load", "rerun", "compact", "sort", "vacuum")


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class Model:
    """A log, its table, and what the table must have at each of its versions."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self._log, self._table = str(path / "log"), str(path / "table")
        self._values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        with ottla.open(self._log) as log:
            log.create_topic("orders", partitions=PARTITIONS)
        self.append()
        self._done("load")

    def append(self) -> None:
        with ottla.open(self._log) as log:
            for number in self.chance.choices(range(PARTITIONS), k=30):
                values = self._values[number]
                values.append(b"%d-%d" % (number, len(values)))
                log.append("orders", values[-1], partition=number)

    def do(self, job: str) -> None:
        """Perhaps with a stop at one of its steps."""
        step = self.chance.choice([*Step, None, None, None])
        with suppress(Stopped):
            self._done(job, step)

    def _done(self, job: str, step: Step | None = None) -> None:
        def stop(progress: Progress) -> None:
            if progress.step is step:
                raise Stopped

        place = LoadPlace(self._log, "orders", self._table)
        options = LoadOptions(min_partitions=self.chance.randrange(1, 7))
        match job:
            case "load":
                load(load_job(place, LocalEngine(), stop, options))
            case "rerun":
                begin = self.chance.randrange(3)
                wanted = rerun_range(
                    str(begin), str(begin + 1 + self.chance.randrange(5)), "orders"
                )
                rerun(load_job(place, LocalEngine(), stop, options), wanted)
            case "compact" | "sort":
                size = self.chance.choice([3000, 2**27])
                column = self.chance.choice(list(SortColumn)) if job == "sort" else None
                options_of_it = CompactOptions(target_size=size, sort_by=column)
                compact(self._table, LocalEngine(), stop, options_of_it)
            case "vacuum":
                vacuum(self._table, SystemClock(), kept_ms=0)

    def check(self) -> None:
        table = TableDirectory(self._table)
        ends = {number: one.until_offset for number, one in table.head().loaded.items()}
        expected = sorted(
            (number, offset, self._values[number][offset])
            for number, end in ends.items()
            for offset in range(end)
        )
        rows = deltalake.DeltaTable(self._table).to_pyarrow_table(
            columns=["partition", "offset", "value"]
        )
        assert sorted(tuple(row.values()) for row in rows.to_pylist()) == expected
        past = {number: self.chance.randint(0, end) for number, end in ends.items()}
        found = ottla.table.dataset(self._table, offsets=past).to_table(["partition", "offset"])
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == [
            (number, offset) for number, offset, _ in expected if offset < past[number]
        ]
        log = open_log(topic_options(self._log, "orders"))
        assert audit(table, log, "orders", compare_all=True).differences == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 9))]
)
def test_whatever_is_done_to_a_table_it_is_a_prefix_of_its_log(tmp_path: Path, seed: int) -> None:
    model = Model(tmp_path, seed)
    for _ in range(15):
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
    place = LoadPlace(str(tmp_path / "log"), "orders", str(tmp_path / "table"))
    report = load(load_job(place, LocalEngine(), options=LoadOptions(min_partitions=4)))
    assert report.row_count == 2000
    assert len(ottla.table.files(str(tmp_path / "table"))) <= 5
    assert len(ottla.table.data_files(str(tmp_path / "table"))) >= 40
