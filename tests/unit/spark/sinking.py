"""Batches of a stream written through the sink without Spark: tasks and driver, killed anywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.base.addresses import Address
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.sink_state import TaskReport
from ottla.spark.sink.transactions import Job, Step, TaskWrite, commit_batch, connected
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.support.patience import PATIENCE_S

SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
"""Of a broker that is quick to start."""

NOBODY = ("127.0.0.1", 1)
Rows = Sequence[str]


class KilledError(BaseException):
    """The process is gone."""


@dataclass(slots=True)
class Killer:
    """Kills at the step of a number, and counts them; then nothing reaches the broker any more."""

    at: int | None = None
    steps: list[Step] = field(default_factory=list)
    cluster: Cluster | None = None

    def __call__(self, step: Step) -> None:
        self.steps.append(step)
        if len(self.steps) - 1 == self.at:
            assert self.cluster is not None
            self.cluster.close()
            self.cluster._bootstrap = (NOBODY,)
            self.cluster._places.clear()
            self.cluster._coordinators.clear()
            self.cluster.settings = replace(self.cluster.settings, patience_s=0.0)
            raise KilledError


@dataclass(frozen=True, slots=True)
class Query:
    """A stream that writes to a topic of one broker."""

    address: Address
    topic: str
    name: str
    started: str = "first"

    @property
    def options(self) -> SinkOptions:
        client = ClientSettings(first_pause_s=0.01, last_pause_s=0.1, patience_s=PATIENCE_S)
        return SinkOptions(
            bootstrap=(self.address,), client=client, topic=self.topic, batch_size=400
        )

    def run(self, batch: int, tasks: Sequence[Rows], kill: Killer | None = None) -> None:
        """One batch as Spark runs it: all tasks, then the commit."""
        reports = [self.task(batch, number, rows, kill) for number, rows in enumerate(tasks)]
        self.commit(batch, reports, kill)

    def task(self, batch: int, number: int, rows: Rows, kill: Killer | None = None) -> TaskReport:
        return self._work(
            kill,
            lambda cluster, on_step: TaskWrite(
                cluster, self.options, self.job(batch), number, on_step
            ).run(record_batches(rows)),
        )

    def commit(self, batch: int, reports: Sequence[TaskReport], kill: Killer | None = None) -> None:
        self._work(
            kill,
            lambda cluster, on_step: commit_batch(cluster, self.job(batch), reports, on_step),
        )

    def job(self, batch: int) -> Job:
        return Job(sink=self.name, run=self.started, batch=batch)

    def _work(self, kill: Killer | None, what: Callable[[Cluster, Killer], Any]) -> Any:
        kill = Killer() if kill is None else kill
        with connected(self.options) as cluster:
            kill.cluster = cluster
            return what(cluster, kill)


def record_batches(rows: Rows) -> list[pa.RecordBatch]:
    values = pa.array(rows, pa.string())
    batch = pa.RecordBatch.from_arrays([values, values], ["key", "value"])
    return [batch.slice(start, 4) for start in range(0, len(rows), 4)]


def rows_of(batch: int, count: int = 12) -> list[str]:
    return [f"batch {batch} row {number}" for number in range(count)]


def divided(rows: Rows, count: int) -> list[Rows]:
    return [rows[number::count] for number in range(count)]


def committed_values(data: Path, topic: str) -> list[str]:
    """What a reader of committed records finds, in an order that can be compared."""
    directory = open_for_reading(str(data))
    return sorted(
        (record.value or b"").decode()
        for number in directory.topics()[topic]
        for record in directory.partition(topic, number).records.read(0, read_committed=True)
    )
