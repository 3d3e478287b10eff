"""The options of a load, and the values that its steps pass on: the table's state and the plan."""

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
    """The progress of a load. Before `COMMITTED` the table is unchanged."""

    CLAIMED = "the table is claimed"
    PLANNED = "the offsets are chosen"
    WRITING = "tasks write"
    WRITTEN = "tasks have written all files"
    VERIFIED = "the files match the log"
    SYNCED = "the files are on the disk"
    COMMITTED = "readers see the rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The argument of progress callbacks: each step once, `WRITING` repeatedly."""

    step: Step
    offset_count: int = 0
    """Offsets to read; at least as many as records."""
    tasks_done: int = 0
    task_count: int = 0
    is_widening: bool = False
    """Whether the table's own files are rewritten with wider types (`widening.py`)."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """Source, topic and target of a load."""

    source: str
    topic: str
    into: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of a load other than its bounds."""

    allow_gaps: bool = False
    skip_damaged: bool = False
    """Whether damaged batches in segment files are skipped and logged."""
    starting: Bound | None = None
    """Where the table's first load begins; `None`: at the log's start."""
    ending: Bound | None = None
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    on_error: OnError = OnError.FAIL
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
    """The constants of all loads into one table. `read` says how tasks open the log."""

    place: LoadPlace
    options: LoadOptions
    read: ReadOptions
    log: LogSource
    table: TableDirectory
    engine: Engine
    progress: OnProgress = pass_over


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of the table that the next commit continues."""

    commit_id: int
    """The id of the next commit."""
    layout: TableLayout
    loaded: Mapping[int, LoadedPartition]
    row_size: float | None
    """Bytes of Parquet per row in the last commit with rows."""
    asked_ms: int | None
    """When a load last read the log's end offsets."""
    starts: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None
    """Where the first load begins and where loads end, if the caller set bounds."""

    def after(self, entry: LedgerEntry, layout: TableLayout) -> "TableState":
        """The state after an entry is published."""
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
    """The ranges of the log to read, and the state of the table to which their rows are added."""

    state: TableState
    ranges: tuple[PlannedRange, ...]
    asked_ms: int
    """When the log's end offsets were read."""
    action: Action = Action.LOAD
    replaced: tuple[DataFile, ...] = ()
    """Files that already have rows of the ranges; their other rows are carried over."""

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
