"""A process that works on a table until it, or its Java, is killed.

`python -m tests.crash.table_worker DIR SEED` loads, reruns, compacts and vacuums at random, for
ever; with a third argument `ACTION:STEP:VICTIM` it does one thing, and kills itself (`driver`) or
its Java (`java`) at that step; with `ACTION` alone it does that and leaves.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.base.clock import SystemClock
from ottla.spark.load import LoadOptions, LoadPlace, Progress, Step, load
from ottla.spark.loading.rerun import rerun
from ottla.spark.loading.rerun_plan import RerunRange
from ottla.spark.session import LocalSession, SessionSettings
from ottla.spark.table import TableDirectory
from ottla.spark.tables.compaction import compact
from ottla.spark.tables.manifest import loaded_partitions
from ottla.spark.tables.vacuum import vacuum

REMOVING = "REMOVING"
"""The one step of a vacuum."""

OPTIONS = LoadOptions(min_partitions=6)


class Worker:
    """What can be done to the table in a directory that holds a log beside it."""

    def __init__(self, directory: Path, seed: int, session: LocalSession) -> None:
        self._log = str(directory / "log")
        self._table = str(directory / "table")
        self._chance = random.Random(seed)
        self._spark = session.spark

    def act(self, action: str, watch: Callable[[str], None]) -> None:
        def progress(one: Progress) -> None:
            if one.step is not Step.WRITING or one.tasks_done or action == "compact":
                watch(one.step.name)

        match action:
            case "load":
                load(
                    self._log,
                    "orders",
                    self._table,
                    spark=self._spark,
                    progress=progress,
                    options=OPTIONS,
                )
            case "rerun":
                place = LoadPlace(self._log, "orders", self._table)
                wanted = self._some_range()
                rerun(place, wanted, spark=self._spark, progress=progress, options=OPTIONS)
            case "compact":
                compact(self._table, spark=self._spark, progress=progress)
            case "vacuum":
                vacuum(self._table, SystemClock(), kept_ms=0, on_removal=lambda _: watch(REMOVING))

    def at_random(self) -> None:
        while True:
            action = self._chance.choice(["load", "rerun", "rerun", "compact", "vacuum"])
            self.act(action, lambda _: None)
            print(f"did {action}", flush=True)

    def _some_range(self) -> RerunRange:
        loaded = loaded_partitions(TableDirectory(self._table).entries())
        begins, ends = {}, {}
        for number, one in loaded.items():
            if one.until_offset:
                begins[number] = self._chance.randrange(one.until_offset)
                ends[number] = self._chance.randint(begins[number] + 1, one.until_offset)
        return RerunRange(begin=begins, end=ends)


def main(directory: str, seed: str, wanted: str = "") -> None:
    session = LocalSession.start(SessionSettings(cores=2, is_short=True, log_level="OFF"))
    worker = Worker(Path(directory), int(seed), session)
    print(f"java {session.process_id}", flush=True)
    if not wanted:
        worker.at_random()
    action, _, rest = wanted.partition(":")
    step, _, victim = rest.partition(":")

    def kill(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid() if victim == "driver" else session.process_id, signal.SIGKILL)

    worker.act(action, kill)


if __name__ == "__main__":
    main(*sys.argv[1:])
