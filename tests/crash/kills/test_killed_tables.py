"""Tables in whose loads, reruns, optimizations and vacuums a process is killed at every step, and
at random moments: nothing lost, nothing twice.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import ottla.table
from ottla.tables.table import Table
from ottla.tables.writing.progress import Step
from tests.crash.kills.feeding import feed, feed_broker, values_of
from tests.crash.kills.jobs import REMOVING, TOPIC
from tests.crash.kills.plan import Victim
from tests.crash.kills.processes import KeptBroker, Trial, seeded
from tests.support.auditing import audited

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]

MAX_SECONDS = 4.0
"""What each job takes at the most on a quiet machine, once Spark runs."""

PREPARATIONS = {"optimize": ["load"], "vacuum": ["load", "optimize"]}
"""What must have been done so that a job has something to do."""


class TableTrial(Trial):
    """The log is read from files, unless a broker has it."""

    fed = 0

    def feed(self, count: int) -> None:
        if self.broker is None:
            feed(self.directory / "log", count, self.chance)
        else:
            feed_broker(self.broker.address, count, self.fed)
        self.fed += count

    def arguments(self, job: str) -> dict[str, str]:
        source = "" if self.broker is None else self.broker.address
        match job:
            case "load":
                return {"source": source}
            case "rerun":
                return {"source": source, "seed": str(self.chance.randrange(10**6))}
        return {}

    def prepare(self, job: str) -> None:
        for before in PREPARATIONS.get(job, []):
            self.until_done(before, **self.arguments(before))

    @property
    def commit_count(self) -> int:
        return Table(str(self.directory / "table")).state().commit_count

    def assert_whole(self) -> None:
        """The table is as its log up to where it was loaded, and no row of it is there twice."""
        report = audited(self.directory)
        assert report.differences == []
        table = ottla.table.dataset(str(self.directory / "table"))
        rows = table.to_table(columns=["partition", "offset"])
        found = set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
        assert len(found) == rows.num_rows == report.rows
        from deltalake import DeltaTable

        foreign = DeltaTable(str(self.directory / "table")).to_pyarrow_table(
            columns=["partition", "offset"]
        )
        assert sorted(foreign.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)

    def assert_all_loaded(self) -> None:
        self.until_done("load", **self.arguments("load"))
        self.assert_whole()
        table = ottla.table.dataset(str(self.directory / "table"))
        values = table.to_table(columns=["value"])["value"].to_pylist()
        assert sorted(one.decode() for one in values) == values_of(self.directory / "log")
        self.until_done("vacuum")
        in_data = {str(path) for path in (self.directory / "table" / "data").rglob("*.parquet")}
        assert in_data == set(ottla.table.files(str(self.directory / "table")))


@contextmanager
def from_files(directory: Path) -> Iterator[TableTrial]:
    with TableTrial(directory, seeded()) as opened:
        opened.feed(1000)
        opened.until_done("load", **opened.arguments("load"))
        yield opened


@contextmanager
def from_broker(directory: Path) -> Iterator[TableTrial]:
    with ottla.open(directory / "log") as log:
        log.create_topic(TOPIC, partitions=2, config={"segment.bytes": 8192})
    with (
        KeptBroker(directory / "log") as broker,
        TableTrial(directory, seeded(), broker) as opened,
    ):
        opened.feed(1000)
        opened.until_done("load", **opened.arguments("load"))
        yield opened


def kill_at_each_step(killed: TableTrial, job: str, victim: Victim) -> None:
    for step in [REMOVING] if job == "vacuum" else [step.name for step in Step]:
        killed.feed(150)
        killed.prepare(job)
        count = killed.commit_count
        # Only while Spark writes a step is told more than once: at the start, and after each pause,
        # of which a fast host may need one.
        turn = killed.chance.randint(1, 2) if step == Step.WRITING.name else 1
        answer = killed.kill_at(victim, step, turn, job, **killed.arguments(job))
        killed.assert_whole()
        if victim is Victim.DRIVER:
            assert answer == ""
            assert (killed.commit_count > count) == (step == Step.COMMITTED.name)
    killed.assert_all_loaded()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", [Victim.DRIVER, Victim.JAVA], ids=lambda one: one.value)
@pytest.mark.parametrize("job", ["load", "rerun", "optimize", "vacuum"])
def test_a_kill_at_any_step_leaves_the_table_whole(
    tmp_path: Path, job: str, victim: Victim
) -> None:
    with from_files(tmp_path) as killed:
        kill_at_each_step(killed, job, victim)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("job", ["load", "rerun", "optimize"])
def test_a_kill_of_a_task_at_any_step_leaves_the_table_whole(tmp_path: Path, job: str) -> None:
    with from_files(tmp_path) as killed:
        kill_at_each_step(killed, job, Victim.WORKER)
        assert killed.kills[f"{job} worker WRITING"]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("job", ["load", "rerun"])
def test_a_kill_of_the_broker_at_any_step_leaves_the_table_whole(tmp_path: Path, job: str) -> None:
    with from_broker(tmp_path) as killed:
        kill_at_each_step(killed, job, Victim.BROKER)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trial", [from_files, from_broker])
def test_kills_at_random_moments_leave_the_table_whole(
    trial: Callable[[Path], AbstractContextManager[TableTrial]],
    tmp_path: Path,
    crash_seconds: float,
) -> None:
    jobs = ["load", "rerun", "rerun", "optimize", "vacuum"]
    with trial(tmp_path) as killed:
        started = time.monotonic()
        for number in itertools.count(1):
            killed.feed(killed.chance.randrange(1, 2000))
            for _ in range(4):
                job = killed.chance.choice(jobs)
                victims = [one for one in Victim if killed.broker or one is not Victim.BROKER]
                seconds = killed.chance.uniform(0.0, MAX_SECONDS)
                victim = killed.chance.choice(victims)
                killed.kill_at_random(victim, seconds, job, **killed.arguments(job))
                killed.assert_whole()
            if time.monotonic() - started > crash_seconds and number > 1:
                break
        killed.assert_all_loaded()
