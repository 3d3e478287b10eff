"""One load: the records of a topic that a table does not have yet, into Parquet, exactly once.

Claim the table, plan (what the table has, what the log holds), let Spark write files that no reader
sees, hold their footers against the log, make them durable, publish them with one manifest entry.
Killed anywhere before that last rename, the table is as it was, and the next load begins again;
killed behind it, the load is done, and the next one goes on from its offsets.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from ottla.base.clock import Clock, SystemClock
from ottla.spark.completeness import begins_a_new_hour
from ottla.spark.log_source import LogSource, open_log, source_options
from ottla.spark.manifest import DataFile, LoadedPartition, ManifestEntry, loaded_partitions
from ottla.spark.options import parse_options
from ottla.spark.parquet_job import ParquetJob
from ottla.spark.plan import PlannedRange, plan_load
from ottla.spark.session import SessionSettings, spark_session
from ottla.spark.table import TableDirectory
from ottla.spark.verification import verify_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHORT_LOAD = 1_000_000
"""Records that Spark writes before Java's second compiler would have paid for itself."""


class Step(Enum):
    """How far a load has come. Up to `COMMITTED` the table is as it was."""

    CLAIMED = "the table is ours alone"
    PLANNED = "the offsets are settled"
    WRITING = "Spark writes"
    WRITTEN = "Spark has written all files"
    VERIFIED = "the files hold what the log does"
    SYNCED = "the files are on the disk"
    COMMITTED = "readers see the rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a watcher is told: each step once, `WRITING` again and again."""

    step: Step
    offset_count: int = 0
    """Offsets to read; records are at most as many."""
    tasks_done: int = 0
    task_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What a load may be asked for besides from where to where."""

    allow_gaps: bool = False
    compression: str = "zstd"
    min_partitions: int | None = None
    client: Mapping[str, str] = field(default_factory=dict)
    """More settings for the Kafka client, when the source is a broker."""
    session: SessionSettings = field(default_factory=SessionSettings)
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a load did. `commit_id` is `None` when there was nothing new."""

    topic: str
    into: str
    commit_id: int | None
    partitions: tuple[LoadedPartition, ...]
    files: tuple[DataFile, ...]
    seconds: float
    write_seconds: float = 0.0
    """How much of that Spark took to read the log and write Parquet."""

    @property
    def nothing_new(self) -> bool:
        return self.commit_id is None

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        return sum(file.size for file in self.files)


def _nobody(_: Progress) -> None:
    pass


def load(
    source: str,
    topic: str,
    into: str,
    *,
    spark: "SparkSession | None" = None,
    progress: Callable[[Progress], None] = _nobody,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Loads what is new in a topic; `source` is a data directory, or `HOST:PORT` of a broker.

    Without `spark` the process's session is used, or one is started for the load alone. Raises
    `UserError` when the log cannot continue the table (`plan.plan_load`) or the directory is not
    one of ours (`table.TableDirectory.claim`), and `CorruptionError` when the log or the manifest
    is damaged; the table is unchanged then.
    """
    return Load(source, topic, into, spark, progress, options or LoadOptions()).run()


class Load:
    """The steps of one load, in order."""

    def __init__(
        self,
        source: str,
        topic: str,
        into: str,
        spark: "SparkSession | None",
        progress: Callable[[Progress], None],
        options: LoadOptions,
    ) -> None:
        client = {f"kafka.{name}": value for name, value in options.client.items()}
        self._read_options = {**source_options(source), **client, "subscribe": topic}
        self._source = source
        self._topic = topic
        self._table = TableDirectory(into)
        self._spark = spark
        self._progress = progress
        self._options = options
        self._started = time.monotonic()
        self._asked_ms = 0
        """When the log was asked where it ends."""

    def run(self) -> LoadReport:
        log = open_log(parse_options(self._read_options))
        log.partitions()  # Before the directory is touched: a topic that is not there raises.
        with self._table.claim():
            entries = self._table.entries()
            self._table.remove_leftovers(entries)
            self._progress(Progress(step=Step.CLAIMED))
            self._asked_ms = self._options.clock.now_ms()
            plan = plan_load(
                loaded_partitions(entries), log.partitions(), allow_gaps=self._options.allow_gaps
            )
            return self._carry_out(plan, log, commit_id=len(entries))

    def _carry_out(
        self, plan: Sequence[PlannedRange], log: LogSource, commit_id: int
    ) -> LoadReport:
        offset_count = sum(one.until_offset - one.from_offset for one in plan)
        self._progress(Progress(step=Step.PLANNED, offset_count=offset_count))
        if offset_count:
            settings = replace(self._options.session, is_short=offset_count < SHORT_LOAD)
            with spark_session(self._spark, settings) as spark:
                started = time.monotonic()
                files = self._write(spark, plan, commit_id)
                seconds = time.monotonic() - started
                loaded = verify_files(plan, files, log, self._table.path)
                # Before a session of our own stops, which takes a while and changes nothing.
                return self._publish(loaded, files, commit_id, seconds)
        loaded = verify_files(plan, (), log, self._table.path)
        if any(one.lost for one in plan):
            return self._publish(loaded, (), commit_id, 0.0)
        if begins_a_new_hour(self._table.entries(), self._asked_ms):
            # Nothing new, and that is news: the hour is over, and the table complete for it.
            self._commit(loaded, (), commit_id)
        return self._report(None, loaded, (), 0.0)

    def _write(
        self, spark: "SparkSession", plan: Sequence[PlannedRange], commit_id: int
    ) -> tuple[DataFile, ...]:
        job = ParquetJob(
            table_path=self._table.path,
            directory=self._table.load_directory(commit_id, secrets.token_bytes(4)),
            read_options={**self._read_options, **self._task_options(plan)},
            compression=self._options.compression,
        )
        offset_count = sum(one.until_offset - one.from_offset for one in plan)
        watched = Progress(step=Step.WRITING, offset_count=offset_count)
        self._progress(watched)
        job.run(
            spark,
            lambda done, count: self._progress(replace(watched, tasks_done=done, task_count=count)),
        )
        self._progress(replace(watched, step=Step.WRITTEN))
        return job.files()

    def _task_options(self, plan: Sequence[PlannedRange]) -> dict[str, str]:
        starting = {str(one.partition): one.from_offset for one in plan}
        ending = {str(one.partition): one.until_offset for one in plan}
        options = {
            "startingOffsets": json.dumps({self._topic: starting}),
            "endingOffsets": json.dumps({self._topic: ending}),
        }
        if self._options.min_partitions is not None:
            options["minPartitions"] = str(self._options.min_partitions)
        return options

    def _publish(
        self,
        partitions: tuple[LoadedPartition, ...],
        files: tuple[DataFile, ...],
        commit_id: int,
        write_seconds: float,
    ) -> LoadReport:
        self._progress(Progress(step=Step.VERIFIED))
        self._table.sync_files([file.path for file in files])
        self._progress(Progress(step=Step.SYNCED))
        self._commit(partitions, files, commit_id)
        self._progress(Progress(step=Step.COMMITTED))
        return self._report(commit_id, partitions, files, write_seconds)

    def _commit(
        self, partitions: tuple[LoadedPartition, ...], files: tuple[DataFile, ...], commit_id: int
    ) -> None:
        self._table.commit(
            ManifestEntry(
                commit_id=commit_id,
                committed_ms=self._options.clock.now_ms(),
                source=self._source,
                partitions=partitions,
                files=files,
                asked_ms=self._asked_ms,
            )
        )

    def _report(
        self,
        commit_id: int | None,
        partitions: tuple[LoadedPartition, ...],
        files: tuple[DataFile, ...],
        write_seconds: float,
    ) -> LoadReport:
        return LoadReport(
            topic=self._topic,
            into=self._table.path,
            commit_id=commit_id,
            partitions=partitions,
            files=files,
            seconds=time.monotonic() - self._started,
            write_seconds=write_seconds,
        )
