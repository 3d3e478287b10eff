"""A commit in preparation: what it continues, how its files are written, and its publication.

Tasks write files that no reader sees; `publish` makes them durable, and then commits them. A crash
before the commit leaves the table unchanged.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import field

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import TaskError
from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.tables.entries import (
    Action,
    DataFile,
    Forgotten,
    LedgerEntry,
    LoadedPartition,
    MergeCounts,
)
from ottla.tables.files.parquet_files import TARGET_SIZE, ParquetStyle, read_footer
from ottla.tables.formats.transaction_log import CommitTakenError, RefusedError
from ottla.tables.layout import TableLayout
from ottla.tables.ledger.ledger import TableState
from ottla.tables.table import PinnedLayout, Table
from ottla.tables.writing.engine import Engine
from ottla.tables.writing.progress import OnProgress, Progress, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How the files of commits are written."""

    engine: Engine
    progress: OnProgress = pass_over
    target_size: int = TARGET_SIZE
    """The size of Parquet files to aim for, in bytes; not to be exceeded."""
    compression: str = "zstd"
    min_tasks: int | None = None
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRanges:
    """What a commit states of the log that was read."""

    source: str = ""
    """For people."""
    partitions: tuple[LoadedPartition, ...] = ()
    asked_ms: int | None = None
    """When the log's end offsets were read."""
    keeps_unread: bool = False
    """Whether a rerun keeps what it did not find in its ranges: rows of records that compaction has
    removed from the log.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A commit in preparation. `directory` is relative to the table.

    `pinned` is the layout that the commit sets; `None` if it sets none.
    """

    table: Table
    commit_id: int
    layout: TableLayout
    action: Action
    options: WriteOptions
    pinned: PinnedLayout | None = None
    directory: str = ""
    change_data: tuple[DataFile, ...] = ()
    """The files of the rows that it changes, of a table with a change feed."""

    @classmethod
    def after(
        cls,
        state: TableState,
        table: Table,
        options: WriteOptions,
        action: Action,
        layout: TableLayout | None,
    ) -> "Transaction":
        """The commit after `state`; `layout` is that of its files, if it writes any."""
        return cls(
            table=table,
            commit_id=state.commit_count,
            layout=layout or state.layout,
            action=action,
            options=options,
            pinned=None
            if layout is None
            else table.pinned(layout, state.layout if state.commit_count else None),
            # A task of a killed load may still write after its lock has ended, and a name that
            # another attempt had would let it replace files of that attempt.
            directory=table.load_directory(state.commit_count, secrets.token_bytes(4), action),
        )

    @property
    def style(self) -> ParquetStyle:
        """How its files are written."""
        compression = self.options.compression
        if self.pinned is None:
            return ParquetStyle(compression=compression, is_flat=self.layout.is_flat)
        return self.pinned.style(compression)

    def written(self, paths: Iterable[str]) -> tuple[DataFile, ...]:
        """What tasks have written, from the files' footers; files without rows are left out."""
        try:
            return tuple(
                part
                for path in paths
                for part in read_footer(
                    self.table.store,
                    path,
                    order=self.layout.order,
                    statistics=self.layout.statistics,
                )
            )
        except FileNotFoundError as error:
            raise TaskError(
                f"{error.filename or error}: a task wrote this file, but it is not here; a table's "
                f"place must be visible to all machines of the cluster"
            ) from error

    def publish(
        self,
        files: Sequence[DataFile],
        replaced: Sequence[DataFile] = (),
        read: ReadRanges | None = None,
        merged: MergeCounts | None = None,
        forgotten: Forgotten | None = None,
    ) -> LedgerEntry:
        """Commits the files; if another writer was first, removes them.

        Raises `CommitTakenError` then.
        """
        read = read or ReadRanges()
        progress = self.options.progress
        paths = [file.path for file in (*files, *self.change_data)]
        is_of_records = self.action in (Action.LOAD, Action.RERUN)
        has_schema = self.layout.decodings and is_of_records
        progress(Progress(step=Step.VERIFIED))
        # Before the commit: after a power failure no log may name a file that is not there.
        self.table.store.sync(paths)
        progress(Progress(step=Step.SYNCED))
        entry = LedgerEntry(
            commit_id=self.commit_id,
            committed_ms=self.options.clock.now_ms(),
            source=read.source,
            partitions=read.partitions,
            files=tuple(files),
            action=self.action,
            replaces=tuple(dict.fromkeys(file.path for file in replaced)),
            masked=tuple({file.path: None for file in replaced if file.kept is not None}),
            asked_ms=read.asked_ms,
            schema=self.layout.row_schema if has_schema else None,
            merged=merged,
            forgotten=forgotten,
        )
        try:
            entry = self.table.commit(entry, replaced, self.pinned, self.change_data)
        except (CommitTakenError, RefusedError):
            # Only after these errors: after any other the commit may have succeeded.
            self.table.remove_files(paths)
            raise
        progress(Progress(step=Step.COMMITTED))
        return entry


def wrong_rows(place: str) -> TaskError:
    return TaskError(
        f"{place}: the written rows differ from those read; the table is unchanged, run it again"
    )
