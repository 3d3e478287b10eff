"""The jobs that are killed. Each tells a `Killer` of its steps, and can be done again."""

import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base.clock import SystemClock
from ottla.base.partitions import TopicPartition
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.rerun_plan import RerunRange
from ottla.mirror import reproduce
from ottla.mirror.endpoints import open_source
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.reproduce import ReproduceOptions, Reproducer
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.sources.bounds import Bound
from ottla.spark.load import load, optimize, rerun
from ottla.spark.mirror import mirror_with_spark
from ottla.spark.sink.writer import OttlaStreamWriter
from ottla.spark.source import OttlaSource
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress
from tests.crash.kills.plan import Killer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TOPIC = "orders"
REMOVING = "REMOVING"
"""The one step of a vacuum."""
COPIED = "COPIED"
"""A mirror in one process has copied some more of a partition."""

LOAD_OPTIONS = LoadOptions(min_partitions=6)
OFFSETS_PER_BATCH = 300


class KilledSource(OttlaSource):
    """The data source with a sink that tells the killer of the option `killer` of its steps."""

    @classmethod
    def name(cls) -> str:
        return "ottla_killed"

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> OttlaStreamWriter:
        options = dict(self.options)
        killer = Killer(options.pop("killer"))
        return OttlaStreamWriter(options, schema, killer)


class Jobs:
    """What can be done in a directory: `log` is what is read, `table` and `copy` what is made."""

    def __init__(self, directory: Path, spark: "SparkSession") -> None:
        self.killer = Killer(str(directory / "kill"))
        self._directory = directory
        self._log = str(directory / "log")
        self._table = str(directory / "table")
        self._copy = str(directory / "copy")
        self._spark = spark

    def run(self, job: str, **arguments: str) -> None:
        getattr(self, job)(**arguments)

    # Streams

    def stream(self, into: str) -> None:
        """All that is in the log and was not written yet, to the brokers `into`."""
        # Spark itself looks for sources once, and finds none if that process is killed.
        for source in (OttlaSource, KilledSource):
            self._spark.dataSource.register(source)
        rows = self._spark.readStream.format("ottla").options(
            path=self._log,
            subscribe=TOPIC,
            startingOffsets="earliest",
            minPartitions="3",
            maxOffsetsPerTrigger=str(OFFSETS_PER_BATCH),
        )
        query = (
            rows.load()
            .select("key", "value")
            .writeStream.format("ottla_killed")
            .options(**{"topic": TOPIC, "kafka.bootstrap.servers": into})
            # Small batches of the log, so that a task sends more than one.
            .options(**{"kafka.batch.size": "2000", "killer": self.killer.directory})
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    # Tables

    def load(self, source: str = "") -> None:
        load(
            source or self._log,
            TOPIC,
            self._table,
            spark=self._spark,
            progress=self._progress,
            options=LOAD_OPTIONS,
        )

    def rerun(self, seed: str, source: str = "") -> None:
        place = LoadRoute(source or self._log, TOPIC, self._table)
        wanted = self._some_range(random.Random(int(seed)))
        rerun(place, wanted, spark=self._spark, progress=self._progress, options=LOAD_OPTIONS)

    def optimize(self) -> None:
        optimize(self._table, spark=self._spark, progress=self._progress)

    def vacuum(self) -> None:
        removed = self._teller(REMOVING)
        vacuum(self._table, SystemClock(), retention_ms=0, on_removal=removed)

    def _progress(self, progress: Progress) -> None:
        self.killer(progress.step)

    def _some_range(self, chance: random.Random) -> RerunRange:
        loaded = Table(self._table).state().loaded
        begins: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for number, one in loaded.items():
            if one.until_offset:
                place = TopicPartition(one.topic, number)
                begins[place] = chance.randrange(one.until_offset)
                ends[place] = chance.randint(begins[place] + 1, one.until_offset)
        return RerunRange(
            begin=Bound(option="--from", for_each=begins), end=Bound(option="--to", for_each=ends)
        )

    # Mirrors

    def mirror(self, engine: str, source: str = "") -> None:
        """As `ottla mirror` does it."""
        place, options = source or self._log, MirrorOptions()
        if engine == "spark":
            mirror_with_spark(place, self._copy, options, spark=self._spark, on_step=self.killer)
        with (
            closing(open_source(place, sleep=time.sleep)) as opened,
            Target.open(self._copy, SystemClock()) as copy,
        ):
            mirror = Mirror(
                opened,
                copy,
                options,
                throttle=self._throttle(),
                on_progress=self._teller(COPIED),
            )
            report = mirror.run_round()
        assert report.refusals == {}

    def reproduce(self, into: str, source: str = "") -> None:
        reproduce.RECORDS_PER_TRANSACTION = 50
        with (
            closing(open_source(source or self._log, sleep=time.sleep)) as opened,
            Reproducer(
                opened,
                into,
                ReproduceOptions(),
                throttle=self._throttle(),
                on_progress=self._teller(COPIED),
            ) as sender,
        ):
            report = sender.run_round()
        assert report.refusals == {}

    def _throttle(self) -> Throttle:
        return Throttle(None, SystemClock(), time.sleep)

    def _teller(self, step: str) -> Callable[[Any], None]:
        return lambda _: self.killer.reached(step)
