"""One load: the records of a topic that a table does not have yet, into Parquet, exactly once.

Claim the table, plan (what the table has, what the log holds), let Spark write files that no reader
sees, hold their footers against the log, make them durable, publish them with one manifest entry.
Killed anywhere before that last rename, the table is as it was, and the next load begins again;
killed behind it, the load is done, and the next one goes on from its offsets.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import TaskError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.bounds import bounded
from ottla.loading.parquet_job import ParquetJob
from ottla.loading.plan import PlannedRange, plan_load
from ottla.loading.sampling import (
    parquet_row_size,
    row_size_of,
    sample_of,
    with_inferred_schema,
)
from ottla.loading.sizing import TARGET_SIZE, offset_count, rows_per_task
from ottla.loading.split_writer import task_splits
from ottla.loading.task import LoadTask, OnError
from ottla.loading.verification import LogChangedError, verify_files
from ottla.sources.bounds import Bound, NoMatch
from ottla.sources.log_source import (
    LogPartition,
    LogSource,
    OffsetsGoneError,
    Split,
    open_log,
    source_options,
)
from ottla.sources.options import parse_options
from ottla.sources.ranges import resolve_bound
from ottla.spark.session import SessionSettings, spark_session
from ottla.tables.completeness import begins_a_new_hour, last_asked_ms
from ottla.tables.layout import (
    RAW,
    LayoutWishes,
    TableLayout,
    first_layout,
    next_layout,
    table_schema,
)
from ottla.tables.manifest import (
    Action,
    DataFile,
    LoadedPartition,
    ManifestEntry,
    loaded_partitions,
)
from ottla.tables.table_directory import CommitTakenError, TableDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHORT_LOAD = 1_000_000
"""Records that Spark writes before Java's second compiler would have paid for itself."""

ATTEMPTS = 3
"""How often a load begins again at the same offsets when the log changes while it is read.

When retention has overtaken it, it begins later, and that it does as often as it is overtaken.
"""


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
    skip_damaged: bool = False
    """Whether damage in a directory's files is stepped over, and logged."""
    starting: Bound | None = None
    """Where a table's first load begins; `None`: where the log does."""
    ending: Bound | None = None
    layout: LayoutWishes = field(default_factory=LayoutWishes)
    on_error: OnError = OnError.FAIL
    target_size: int = TARGET_SIZE
    """Bytes of Parquet that a file should come near to, and stay below."""
    compression: str = "zstd"
    min_partitions: int | None = None
    is_long: bool = False
    """Whether a session that is started for this will have a lot to do, later if not now."""
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
    def quarantined_count(self) -> int:
        return sum(partition.quarantined_count for partition in self.partitions)

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        return sum(file.size for file in self.files)


def ignore(_: Progress) -> None:
    """For who does not watch."""


def load(
    source: str,
    topic: str,
    into: str,
    *,
    spark: "SparkSession | None" = None,
    progress: Callable[[Progress], None] = ignore,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Loads what is new in a topic; `source` is a data directory, or `HOST:PORT` of a broker.

    Without `spark` the process's session is used, or one is started for the load alone. Raises
    `UserError` when the log cannot continue the table (`plan.plan_load`), when the directory is not
    one of ours (`table.TableDirectory.claim`), and for a value that cannot be decoded
    (`OnError.FAIL`); `CorruptionError` when the log or the manifest is damaged. The table is
    unchanged then.
    """
    options = options or LoadOptions()
    with Sessions(spark, options.session) as sessions:
        filled = TableLoad(LoadPlace(source, topic, into), sessions, progress, options)
        with filled.claimed():
            return filled.load_new()


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """From where to where."""

    source: str
    topic: str
    into: str


class Sessions:
    """The Spark session of some loads: the one given or running, or one of our own, started when
    there is something to load."""

    def __init__(self, given: "SparkSession | None", settings: SessionSettings) -> None:
        self._given = given
        self._settings = settings
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> "Sessions":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The session may know better than the error why it was raised.
        self._stack.__exit__(kind, error, trace)

    def get(self, *, is_short: bool) -> "SparkSession":
        """`is_short` is for one that is to be started: whether it is for little work."""
        if self._session is None:
            settings = replace(self._settings, is_short=is_short)
            self._session = self._stack.enter_context(spark_session(self._given, settings))
        return self._session


class TableLoad:
    """Loads into one table that this process has claimed, one after the other.

    `rerun.Rerun` plans and publishes another way.
    """

    action = Action.LOAD

    def __init__(
        self,
        place: LoadPlace,
        sessions: Sessions,
        progress: Callable[[Progress], None],
        options: LoadOptions,
    ) -> None:
        client = {f"kafka.{name}": value for name, value in options.client.items()}
        skip = {"skipDamaged": "true"} if options.skip_damaged else {}
        self._read_options = {
            **source_options(place.source),
            **client,
            **skip,
            "subscribe": place.topic,
        }
        self._place = place
        self._table = TableDirectory(place.into)
        self._sessions = sessions
        self._progress = progress
        self._options = options
        self._loaded: dict[int, LoadedPartition] = {}
        self._commit_id = 0
        self._layout = RAW
        self._directory = ""
        """Where the files go, relative to the table."""
        self._replaces: tuple[str, ...] = ()
        self._row_size: float | None = None
        self._asked_ms = 0
        """When the log was asked where it ends."""
        self._starts: dict[TopicPartition, int] | None = None
        self._ends: dict[TopicPartition, int] | None = None
        self._last_asked_ms: int | None = None
        """The same, as of the last commit."""

    @property
    def topic(self) -> str:
        return self._place.topic

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keeps other loads out; raises before the directory is touched where that can be known."""
        log = self._open_log()
        offered = log.partitions()
        with self._table.claim():
            self._table.remove_leftovers(self._table.entries())
            self._begin(log, offered)
            self._progress(Progress(step=Step.CLAIMED))
            yield

    def _begin(self, log: LogSource, offered: Sequence[LogPartition]) -> None:
        """Goes by what the table is now, whoever made it so."""
        entries = self._table.entries()
        self._loaded = loaded_partitions(entries)
        self._commit_id = len(entries)
        self._last_asked_ms = last_asked_ms(entries)
        self._row_size = row_size_of(entries)
        self._layout = self._chosen_layout()
        self._settle_bounds(log, offered)

    def plan(self) -> tuple[PlannedRange, ...]:
        """What is new in the log now; raises `UserError` when it cannot continue the table."""
        self._asked_ms = self._options.clock.now_ms()
        offered = self._open_log().partitions()
        plan = plan_load(self._loaded, offered, allow_gaps=self._options.allow_gaps)
        return bounded(plan, None if self._loaded else self._starts_now(plan), self._ends)

    def _starts_now(self, plan: Sequence[PlannedRange]) -> Mapping[TopicPartition, int] | None:
        """The log's own start, and one found by time, move on when retention has passed them by."""
        starting, starts = self._options.starting, self._starts
        if starts is None or starting is None:
            return None
        first = {one.place: one.from_offset for one in plan}
        return {
            place: max(offset, first[place])
            if place in first and starting.moves_with_the_log(place)
            else offset
            for place, offset in starts.items()
        }

    def size_of(self, plan: Sequence[PlannedRange]) -> float:
        """About how many bytes of Parquet a plan is, going by what was loaded last."""
        return offset_count(plan) * (self._row_size or 0.0)

    def load_new(self) -> LoadReport:
        """Loads all that is new."""
        return self.load_plan(self.plan())

    def load_plan(self, plan: Sequence[PlannedRange]) -> LoadReport:
        """Loads what is planned; plans and tries again when the log changes under it.

        Also when another writer makes the commit before it: as often as that happens, since each
        time the table has come further.
        """
        changes = 0
        while True:
            before = plan
            try:
                return self._carry_out(plan)
            except (LogChangedError, OffsetsGoneError, TaskError) as error:
                if not _has_log_changed(error):
                    raise
                plan = self.plan()
                changes += not _begins_later(plan, before)
                if changes == ATTEMPTS:
                    raise
            except CommitTakenError:
                log = self._open_log()
                self._begin(log, log.partitions())
                plan = self.plan()

    def _carry_out(self, plan: Sequence[PlannedRange]) -> LoadReport:
        started = time.monotonic()
        log = self._open_log()
        files: tuple[DataFile, ...] = ()
        write_seconds = 0.0
        count = offset_count(plan)
        self._progress(Progress(step=Step.PLANNED, offset_count=count))
        if count:
            self._prepare(plan, log)
            spark = self._sessions.get(is_short=count < SHORT_LOAD and not self._options.is_long)
            write_started = time.monotonic()
            files = self._write(spark, plan, log)
            write_seconds = time.monotonic() - write_started
        loaded = verify_files(plan, files, log, self._table.store)
        commit_id = None
        is_begun = self._starts is not None and not self._loaded
        if is_begun and not count:
            self._pin_without_records()
        if count or is_begun or any(one.lost for one in plan):
            commit_id = self._publish(loaded, files)
        elif begins_a_new_hour(self._last_asked_ms, self._asked_ms):
            # Nothing new, and that is news: the hour is over, and the table complete for it.
            self._commit(loaded, ())
        return LoadReport(
            topic=self._place.topic,
            into=self._table.path,
            commit_id=commit_id,
            partitions=loaded,
            files=files,
            seconds=time.monotonic() - started,
            write_seconds=write_seconds,
        )

    def _open_log(self) -> LogSource:
        return open_log(parse_options(self._read_options))

    def _chosen_layout(self) -> TableLayout:
        wishes = self._options.layout
        if self._commit_id:
            return next_layout(self._table.layout(), wishes, self._commit_id)
        # What a load pinned that was killed before its first commit holds nobody.
        return first_layout(wishes)

    def _settle_bounds(self, log: LogSource, offered: Sequence[LogPartition]) -> None:
        """Asks the log once where the bounds lie: `latest` is what it is now."""
        starting, ending = self._options.starting, self._options.ending
        if starting is not None:
            if self._loaded:
                ends = ", ".join(f"{one.until_offset:,}" for one in self._loaded.values())
                raise UserError(
                    f"--from is for a table's first load; {self._table.path} has offsets below "
                    f"{ends} already, and goes on from there: leave --from out"
                )
            self._starts = resolve_bound(starting, log, offered, NoMatch.LATEST)
        if ending is not None and self._ends is None:
            self._ends = resolve_bound(ending, log, offered, NoMatch.LATEST)

    def _prepare(self, plan: Sequence[PlannedRange], log: LogSource) -> None:
        """Settles what only a look at the records can tell, and pins the layout."""
        if self._row_size is None or self._layout.is_inferred:
            sample = sample_of(log, plan)
            self._row_size = self._row_size or parquet_row_size(sample)
            if self._layout.is_inferred:
                self._layout = with_inferred_schema(self._layout, sample)
        self._table.pin(self._layout)

    def _pin_without_records(self) -> None:
        """For a first load that only notes where the table begins."""
        if self._layout.is_inferred:
            raise UserError(
                f"{self.topic}: there is no record yet to infer a schema from; give --schema"
            )
        self._table.pin(self._layout)

    def _write(
        self, spark: "SparkSession", plan: Sequence[PlannedRange], log: LogSource
    ) -> tuple[DataFile, ...]:
        attempt = secrets.token_bytes(4)
        self._directory = self._table.load_directory(self._commit_id, attempt, self.action)
        watched = Progress(step=Step.WRITING, offset_count=offset_count(plan))
        self._progress(watched)
        job = ParquetJob(store=self._table.store, task=self._task(), splits=self._splits(plan, log))
        files = job.run(
            spark,
            lambda done, count: self._progress(replace(watched, tasks_done=done, task_count=count)),
        )
        self._progress(replace(watched, step=Step.WRITTEN))
        return files

    def _splits(self, plan: Sequence[PlannedRange], log: LogSource) -> list[Split]:
        assert self._row_size is not None
        ranges = {
            TopicPartition(self._place.topic, one.partition): OffsetRange(
                from_offset=one.from_offset, until_offset=one.until_offset
            )
            for one in plan
            if one.from_offset < one.until_offset
        }
        count = rows_per_task(
            offset_count(plan),
            self._row_size,
            self._options.target_size,
            self._options.min_partitions,
        )
        return task_splits(log, ranges, count)

    def _task(self) -> LoadTask:
        return LoadTask(
            read_options=self._read_options,
            topic=self._place.topic,
            table=self._table.path,
            directory=self._directory,
            commit_id=self._commit_id,
            decoding=self._layout.decoding,
            on_error=self._options.on_error,
            compression=self._options.compression,
            partitioning=self._layout.partitioning,
        )

    def _publish(self, partitions: tuple[LoadedPartition, ...], files: tuple[DataFile, ...]) -> int:
        self._progress(Progress(step=Step.VERIFIED))
        self._table.store.sync([file.path for file in files])
        self._progress(Progress(step=Step.SYNCED))
        commit_id = self._commit(partitions, files)
        self._progress(Progress(step=Step.COMMITTED))
        return commit_id

    def _commit(self, partitions: tuple[LoadedPartition, ...], files: tuple[DataFile, ...]) -> int:
        entry = ManifestEntry(
            commit_id=self._commit_id,
            committed_ms=self._options.clock.now_ms(),
            source=self._place.source,
            partitions=partitions,
            files=files,
            action=self.action,
            replaces=self._replaces,
            asked_ms=self._asked_ms,
            schema=table_schema(self._layout.value_type) if self._layout.decodings else None,
        )
        try:
            self._table.commit(entry)
        except CommitTakenError:
            self._table.remove_files([file.path for file in files])
            raise
        self._loaded = {**self._loaded, **loaded_partitions([entry])}
        self._row_size = row_size_of([entry]) or self._row_size
        self._last_asked_ms = self._asked_ms
        self._commit_id += 1
        return entry.commit_id


def _begins_later(plan: Sequence[PlannedRange], before: Sequence[PlannedRange]) -> bool:
    """Whether retention has moved the start of what is to be loaded since it was planned before."""
    begins = {one.partition: one.from_offset for one in before}
    return any(one.from_offset > begins.get(one.partition, one.from_offset) for one in plan)


def _has_log_changed(error: LogChangedError | OffsetsGoneError | TaskError) -> bool:
    """Whether the load may find another log when it begins again."""
    return not isinstance(error, TaskError) or error.kind == OffsetsGoneError.__name__
