"""The options of a load, and the values that its steps pass on: the table's state and the plan."""

from collections.abc import Mapping
from dataclasses import field

from ottla.base.clock import Clock, SystemClock
from ottla.base.events import pass_over
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.loading.dead_letters import DeadLetters
from ottla.loading.letter_source import Letters, LetterSource
from ottla.loading.plan import PlannedRange, offset_count
from ottla.sources.bounds import Bound
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogSource
from ottla.sources.options import ReadOptions
from ottla.storage.reading.opening import TierPlace
from ottla.tables import (
    TARGET_SIZE,
    Action,
    Engine,
    LayoutOptions,
    OnError,
    OnProgress,
    Table,
    TableState,
    WriteOptions,
)


@dataclass(frozen=True, slots=True)
class LoadRoute:
    """Which topic of which source goes into which table."""

    source: str
    topic: str
    into: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of a load other than its bounds."""

    allow_gaps: bool = False
    skip_damaged: bool = False
    """Whether damaged batches in segment files are skipped and logged."""
    tier: TierPlace | None = None
    """Where the segments are that a directory no longer has."""
    starting: Bound | None = None
    """Where the table's first load begins; `None`: at the log's start."""
    ending: Bound | None = None
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    on_error: OnError = OnError.FAIL
    dead_letters: DeadLetters | None = None
    """Where records that are set aside are sent too."""
    target_size: int = TARGET_SIZE
    """The size of Parquet files to aim for, in bytes; not to be exceeded."""
    compression: str = "zstd"
    min_partitions: int | None = None
    is_long: bool = False
    """Whether a session started for this load will have a lot of work, now or later."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Further settings for the Kafka client if the source is a broker."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """The constants of all loads into one table."""

    route: LoadRoute
    options: LoadOptions
    read: ReadOptions
    log: LogSource
    table: Table
    engine: Engine
    progress: OnProgress = pass_over

    @property
    def read_in_tasks(self) -> ReadOptions | LogFiles | Letters:
        """What a task reads: files as they are listed already, unless it is in another process."""
        if isinstance(self.log, LetterSource):
            return self.log.letters
        return self.log if isinstance(self.log, LogFiles) else self.read

    @property
    def write_options(self) -> WriteOptions:
        """How the table's files are written."""
        return WriteOptions(
            engine=self.engine,
            progress=self.progress,
            target_size=self.options.target_size,
            compression=self.options.compression,
            min_tasks=self.options.min_partitions,
            clock=self.options.clock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState(TableState):
    """The state of the table that a load continues, with the layout that the load asks for.

    The bounds say where the first load begins and where loads end, if the caller set them.
    """

    starts: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The ranges of the log to read, and the state of the table to which their rows are added."""

    state: LoadState
    ranges: tuple[PlannedRange, ...]
    asked_ms: int
    """When the log's end offsets were read."""
    action: Action = Action.LOAD
    keeps_unread: bool = False
    """As `ReadRanges.keeps_unread`."""

    @property
    def offset_count(self) -> int:
        return offset_count(self.ranges)

    @property
    def expected_size(self) -> float:
        """Estimated bytes of Parquet, from the row size of the last load."""
        return self.offset_count * (self.state.row_size or 0.0)

    @property
    def begins_table(self) -> bool:
        """Whether the commit notes where the table begins, even without records."""
        return self.state.starts is not None and not self.state.loaded

    @property
    def is_news(self) -> bool:
        """Whether there is anything to commit: records, the table's start, or an allowed loss."""
        return bool(self.offset_count) or self.begins_table or any(one.lost for one in self.ranges)
