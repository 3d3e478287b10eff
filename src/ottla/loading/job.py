"""The options of a load, and the values that its steps pass on: the table's state, and the plan."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum

from ottla.base.clock import Clock, SystemClock
from ottla.base.events import pass_over
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.loading.engine import Engine
from ottla.loading.plan import PlannedRange, offset_count
from ottla.loading.task import OnError
from ottla.sources.bounds import Bound
from ottla.sources.log_source import LogSource
from ottla.sources.options import ReadOptions
from ottla.tables.layout import LayoutOptions, TableLayout
from ottla.tables.ledger_entries import (
    Action,
    DataFile,
    LedgerEntry,
    LoadedPartition,
    loaded_partitions,
    row_size_of,
)
from ottla.tables.parquet_files import TARGET_SIZE
from ottla.tables.table_directory import TableDirectory


class Step(Enum):
    """How far a load has come. Up to `COMMITTED` the table is as it was."""

    CLAIMED = "the table is ours alone"
    PLANNED = "the offsets are settled"
    WRITING = "tasks write"
    WRITTEN = "tasks have written all files"
    VERIFIED = "the files hold what the log does"
    SYNCED = "the files are on the disk"
    COMMITTED = "readers see the rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The argument of progress callbacks: each step once, `WRITING` repeatedly."""

    step: Step
    offset_count: int = 0
    """Offsets to read; records are at most as many."""
    tasks_done: int = 0
    task_count: int = 0
    is_widening: bool = False
    """Whether what is written are the table's own rows, for wider types (`widening.py`)."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """From where to where."""

    source: str
    topic: str
    into: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of a load other than its bounds."""

    allow_gaps: bool = False
    skip_damaged: bool = False
    """Whether damage in a directory's files is stepped over, and logged."""
    starting: Bound | None = None
    """Where a table's first load begins; `None`: where the log does."""
    ending: Bound | None = None
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    on_error: OnError = OnError.FAIL
    target_size: int = TARGET_SIZE
    """Bytes of Parquet that a file should come near to, and stay below."""
    compression: str = "zstd"
    min_partitions: int | None = None
    is_long: bool = False
    """Whether a session that is started for this will have a lot to do, later if not now."""
    client: Mapping[str, str] = field(default_factory=dict)
    """More settings for the Kafka client, when the source is a broker."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """What stays the same over all loads into one table. `read` is how tasks open the log."""

    place: LoadPlace
    options: LoadOptions
    read: ReadOptions
    log: LogSource
    table: TableDirectory
    engine: Engine
    progress: OnProgress = pass_over


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state that the next commit continues: the current table, whichever writer made it."""

    commit_id: int
    """The next commit's."""
    layout: TableLayout
    loaded: Mapping[int, LoadedPartition]
    row_size: float | None
    """Bytes of Parquet to a row, by the last commit with rows."""
    asked_ms: int | None
    """When a load last asked the log where it ends."""
    starts: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None
    """Where the first load begins and where loads end, if the caller said so."""

    def after(self, entry: LedgerEntry, layout: TableLayout) -> "TableState":
        """The state once an entry is published."""
        return replace(
            self,
            commit_id=entry.commit_id + 1,
            layout=layout,
            loaded={**self.loaded, **loaded_partitions([entry])},
            row_size=row_size_of(entry.files) or self.row_size,
            asked_ms=entry.asked_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The ranges of the log to read, and the state onto which their rows are committed."""

    state: TableState
    ranges: tuple[PlannedRange, ...]
    asked_ms: int
    """When the log was asked where it ends."""
    action: Action = Action.LOAD
    replaced: tuple[DataFile, ...] = ()
    """Files that rows of the ranges are in already; their other rows are carried over."""

    @property
    def offset_count(self) -> int:
        return offset_count(self.ranges)

    @property
    def expected_size(self) -> float:
        """Estimated bytes of Parquet, according to the last load."""
        return self.offset_count * (self.state.row_size or 0.0)

    @property
    def begins_table(self) -> bool:
        """Whether it is to be noted where the table begins, even without a record."""
        return self.state.starts is not None and not self.state.loaded

    @property
    def is_news(self) -> bool:
        """Whether there is anything to publish: rows, a beginning, or a loss that is allowed."""
        return bool(self.offset_count) or self.begins_table or any(one.lost for one in self.ranges)
