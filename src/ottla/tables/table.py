"""A table: Parquet files under `data/`, the log that names the current ones, and the ledger. The
log (`transaction_log.py`) is authoritative; the ledger beside it, under `_ottla/`, has what the log
cannot express. A load that was killed leaves data files that the log does not name, and one killed
right after its commit a ledger that lacks the last entry: readers see neither, the next load writes
the entry, and a vacuum removes the files. Format page: docs/format/table-ledger.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, UserError
from ottla.base.extras import needed_for
from ottla.base.files import FileSystem, join
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.tables.entries import (
    Action,
    DataFile,
    FileRole,
    LedgerEntry,
    entry_fields,
    folded_files,
    is_of_commit,
    of_role,
    parse_fields,
)
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.parquet_files import ParquetStyle, read_footer
from ottla.tables.formats.delta import DeltaLog
from ottla.tables.formats.transaction_log import (
    Change,
    Contents,
    LogState,
    TransactionLog,
    no_table,
    whole_paths,
)
from ottla.tables.layout import TableLayout, layout_fields
from ottla.tables.ledger.announcements import announce_hours
from ottla.tables.ledger.ledger import LEDGER_DIRECTORY, Ledger, TableState
from ottla.tables.ledger.rebuilding import rebuilt_entry
from ottla.tables.stores.local_store import LocalStore
from ottla.tables.stores.store import ICEBERG, TableStore, open_store

if TYPE_CHECKING:
    import pyarrow as pa

OWN_DIRECTORY = "_ottla"
DATA_DIRECTORY = "data"

_OF_OTHER_WRITERS = lazy_pattern(r"part-.*\.parquet|deletion_vector_.*\.bin|\w+=.*|_.*|\w\w")
"""Files that other programs write beside our directories when they rewrite a table (`OPTIMIZE`);
with `delta.randomizeFilePrefixes` they are in directories of two random characters."""

_NAMES_SHOWN = 3
_OWN_NAMES = {"lock", "ledger", "hours", "quarantine", "forgotten", "deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedLayout:
    """The layout of a commit, and the field ids of its files.

    The commit is refused if the table's columns have other ids by then.
    """

    layout: TableLayout
    field_ids: Mapping[str, int]

    def style(self, compression: str) -> ParquetStyle:
        return ParquetStyle(
            compression=compression, field_ids=self.field_ids, is_flat=self.layout.is_flat
        )


class Table:
    """A table at any location. Nothing is written before `claim`."""

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        self.store, self.log = _opened(path, file_system)
        self.address = path if path.startswith(ICEBERG) else self.store.address
        """The address as users write it."""
        self.ledger = Ledger(self.store)
        self.files = DataFiles(self.store)

    @property
    def path(self) -> str:
        """The location of the files: an absolute directory, or an address in an object store."""
        return self.store.address

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Excludes other writers from a directory, and completes what a crash left.

        In an object store others may write meanwhile, which `commit` reports. Raises `UserError` if
        the place contains anything else, or while another load into the directory runs.
        """
        self._check_place()
        with self.store.claimed():
            self.store.make_directories([LEDGER_DIRECTORY, DATA_DIRECTORY])
            # Before the log is read: its last entry may be torn, and was then never acknowledged.
            self.log.repair(self.ledger.state().version)
            state = self.log.state()
            if state is not None:
                self._complete(state)
            yield

    def is_there(self) -> bool:
        """Whether the table exists."""
        return self.log.state() is not None

    def require(self) -> None:
        """Raises `UserError` if the table does not exist."""
        if self.log.state() is None:
            raise no_table(self.address)

    def state(self) -> TableState:
        """The state that the next commit continues; empty if the table does not exist."""
        log = self.log.state()
        if log is None and not self.store.names(LEDGER_DIRECTORY):
            return TableState()
        state = self.ledger.state()
        log = self._checked(log, state.commit_count)
        for entry in [] if log is None else self._missing(log, state.commit_count):
            state = state.after(entry)
        return state

    def layout(self) -> TableLayout:
        """The layout of the rows; that of raw rows if the table does not exist."""
        return self.state().layout

    def pinned(self, layout: TableLayout, before: TableLayout | None = None) -> PinnedLayout:
        """A layout for the files of the next commit, and for the commit.

        `before` is that of the table, if it is there. Raises `UserError` if another program has
        changed the names of its columns.
        """
        if before is not None:
            self.log.check_names(columns_of(before))
        return PinnedLayout(layout=layout, field_ids=self.log.field_ids(columns_of(layout)))

    def entries(self) -> list[LedgerEntry]:
        """All commits, oldest first; raises `UserError` if the table does not exist."""
        state = self.log.state()
        if state is None:
            raise no_table(self.address)
        entries = self.ledger.entries()
        state = self._checked(state, len(entries)) or state
        return [*entries, *self._missing(state, len(entries))]

    def current_files(self, version: int | None = None) -> list[DataFile]:
        """The current files in any role, or those of a version; raises as `entries` does.

        Files beside the table are not in the log, so they are always the current ones.
        """
        if version is None:
            return self.moment()[1]
        return self._described_files(self.log.contents(version), self.entries())

    def moment(self) -> tuple[list[LedgerEntry], list[DataFile]]:
        """All commits, and the files of the table after the last of them."""
        while True:
            entries = self.entries()
            self.log.check_names(columns_of(self.layout()))
            contents = self.log.contents()
            if len(self.entries()) == len(entries):
                return entries, self._described_files(contents, entries)

    def whole_paths(self) -> list[str]:
        """The current files for who reads them whole; raises `UserError` if rows were deleted in
        some, or without a table.
        """
        self.require()
        return whole_paths(self.address, self.log.contents())

    def make_whole(self) -> None:
        """Before a commit that may replace files: rewrites those in which another program deleted
        rows, if the format's library cannot replace them otherwise.
        """
        if self.log.replaces_masked or not self.is_there() or not self.log.contents().kept:
            return
        masked = {one.path: one for one in self.current_files() if one.kept is not None}
        places = [(one.partition, int(self.files.offsets(one)[0])) for one in masked.values()]
        if places:  # A file without any row left is no obstacle.
            self.log.make_whole(places)

    def commit(
        self,
        entry: LedgerEntry,
        replaced: Sequence[DataFile] = (),
        pinned: PinnedLayout | None = None,
        change_data: Sequence[DataFile] = (),
    ) -> LedgerEntry:
        """Publishes durable files: their rows are then part of the table. Returns the entry made.

        Without `pinned` the layout stays as it is. Raises `CommitTakenError` if another writer made
        the commit of that number; the table is then as that writer left it.
        """
        state = self.state()
        layout = state.layout if pinned is None else pinned.layout
        if not state.commit_count or layout != state.layout:
            entry = replace(entry, layout=layout_fields(layout))
        change = change_of(entry, layout, replaced)
        change = replace(
            change, partitioned_before=state.layout.partitioning, change_data=change_data
        )
        if pinned is not None:
            change = replace(change, field_ids=pinned.field_ids)
        # The log first: it decides which of two writers made this commit, and it has the entry's
        # facts too, which the next writer copies if this one is killed before the ledger has them.
        entry = replace(entry, version=self.log.commit(change))
        self._record(entry)
        if any(one.role is FileRole.QUARANTINE for one in (*entry.files, *replaced)):
            self._publish_quarantine(entry.committed_ms)
        return entry

    def _record(self, entry: LedgerEntry) -> None:
        self.ledger.append(entry)
        announce_hours(self.store, entry, self.entries)

    def _publish_quarantine(self, committed_ms: int) -> None:
        files = of_role(folded_files(self.entries()), FileRole.QUARANTINE)
        self.log.publish_quarantine(files, committed_ms)

    def load_directory(self, commit_id: int, attempt: bytes, action: Action = Action.LOAD) -> str:
        """The directory for a commit's files, relative to the table.

        `attempt` is four random bytes. Tasks of a killed load may still write after its lock has
        ended, so two attempts at the same commit never share a directory.
        """
        assert len(attempt) == 4
        return join(DATA_DIRECTORY, f"{action.value}-{commit_id:020d}-{attempt.hex()}")

    def remove_files(self, paths: Sequence[str]) -> None:
        """Removes data files (relative paths) that were not committed."""
        for path in set(paths):
            self.store.delete(path)

    def sizes(self) -> dict[str, int]:
        """The sizes of all existing files, including those not in the table."""
        return {file.path: file.size for file in self.store.find("")}

    def _checked(self, state: LogState | None, count: int) -> LogState | None:
        """The log's state, with at least the ledger's commits; raises `CorruptionError`, and
        `UserError` if another program has dropped the table.

        Reads the state again if necessary: another writer may have committed meanwhile.
        """
        if count > (0 if state is None else state.commit_count):
            state = self.log.state()
        if count and state is None and self.address != self.path:
            raise UserError(
                f"{self.address}: the catalog has no such table any more, but {self.path} has the "
                f"files of its {count} commits; rename or register it back, or move that directory "
                f"away to load from the beginning"
            )
        if count > (0 if state is None else state.commit_count):
            raise CorruptionError(
                f"{self.path}/{LEDGER_DIRECTORY}",
                0,
                f"it has commit {count - 1}, which is not in the table's log",
            )
        return state

    def _check_place(self) -> None:
        """Raises `UserError` if the place has other files; does not read a log that may be
        incomplete.
        """
        names = self.store.names("")
        if OWN_DIRECTORY not in names and self.log.directory in names:
            self.log.state()
        # A load that was killed before its first commit leaves these.
        others = [
            name
            for name in names
            if name not in (OWN_DIRECTORY, DATA_DIRECTORY, self.log.directory)
        ]
        remedy = "load into an empty directory"
        if self.store.names(LEDGER_DIRECTORY):
            remedy = "move them elsewhere"
            others = [name for name in others if not _OF_OTHER_WRITERS.fullmatch(name)]
        if OWN_DIRECTORY in names:
            own = self.store.names(OWN_DIRECTORY)
            others += [name for name in own if name.removesuffix(".tmp") not in _OWN_NAMES]
        elif DATA_DIRECTORY in names:
            # In an object store such a load leaves only the files of its tasks.
            data = self.store.names(DATA_DIRECTORY)
            others += [f"{DATA_DIRECTORY}/{name}" for name in data if not is_of_commit(name)]
        if others:
            more = ", ..." if len(others) > _NAMES_SHOWN else ""
            raise UserError(
                f"{self.path} holds files that ottla did not load "
                f"({', '.join(others[:_NAMES_SHOWN])}{more}); {remedy}"
            )

    def _complete(self, state: LogState) -> None:
        """Writes ledger entries that a killed writer did not write."""
        for entry in self._missing(state, self.ledger.state().commit_count):
            self._record(entry)
            # It may have replaced quarantined files.
            self._publish_quarantine(entry.committed_ms)

    def _missing(self, state: LogState, count: int) -> list[LedgerEntry]:
        """The entries of commits that are in the log but not in the ledger."""
        if count >= state.commit_count:
            return []
        found = [
            replace(parse_fields(self.path, one.facts), version=one.version)
            for one in self.log.history(count)
        ]
        if [one.commit_id for one in found] == list(range(count, state.commit_count)):
            return found
        # The log's history was cleaned up before the entry was written, so rebuild it.
        known = {file.path for entry in self.ledger.entries() for file in entry.files}
        contents = self.log.contents()
        new = [one for one in contents.paths if one not in known]
        files = [part for path in new for part in self._described(path, contents.kept.get(path))]
        return [rebuilt_entry(state.commit_count - 1, self.ledger.state(), self.log, files)]

    def _described_files(
        self, contents: Contents, entries: Sequence[LedgerEntry]
    ) -> list[DataFile]:
        known: dict[str, list[DataFile]] = {}
        for entry in entries:
            for file in entry.files:
                known.setdefault(file.path, []).append(file)
        found = []
        for path in contents.paths:
            kept = contents.kept.get(path)
            # No entry names files that other programs have rewritten.
            is_known = path in known and kept is None
            found += known[path] if is_known else self._described(path, kept)
        beside = [one for one in folded_files(entries) if one.role is not FileRole.ROWS]
        return [*found, *beside]

    def _described(self, path: str, kept: bytes | None) -> list[DataFile]:
        from pyarrow import ArrowException

        try:
            return read_footer(self.store, path, kept=kept)
        except (ArrowException, OSError) as error:
            raise CorruptionError(f"{self.path}/{path}", 0, str(error)) from error


def _opened(path: str, file_system: FileSystem | None) -> tuple[TableStore, TransactionLog]:
    if path.startswith(ICEBERG):
        with needed_for("a table of Iceberg"):
            from ottla.tables.formats.iceberg import IcebergLog
        log = IcebergLog(path)
        return log.store, log
    store = open_store(path) if file_system is None else LocalStore(path, file_system)
    if isinstance(store, LocalStore):
        store.check_place()
    return store, DeltaLog(store)


def columns_of(layout: TableLayout) -> "pa.Schema":
    """All columns of a table, including those in its directories' names."""
    import pyarrow as pa

    parted = layout.partitioning
    rows = layout.columns
    in_names = {} if parted is None else parted.column_types(rows)
    return pa.schema([*layout.stored_columns, *in_names.items()])


def change_of(entry: LedgerEntry, layout: TableLayout, replaced: Sequence[DataFile]) -> Change:
    """The change to the table's log for an entry: rows only, without quarantined files."""
    return Change(
        commit_id=entry.commit_id,
        next_offsets=_next_offsets(entry),
        added=[one for one in entry.files if one.role is FileRole.ROWS],
        removed=[one for one in replaced if one.role is FileRole.ROWS],
        has_new_rows=entry.action is not Action.OPTIMIZE,
        schema=columns_of(layout),
        partition_columns=_partition_columns(layout),
        partitioning=layout.partitioning,
        partitioned_before=layout.partitioning,
        facts=entry_fields(entry),
        committed_ms=entry.committed_ms,
        is_flat=layout.is_flat,
        statistics=layout.statistics,
        has_change_feed=layout.has_change_feed,
    )


def _next_offsets(entry: LedgerEntry) -> dict[str, int]:
    """The next offset of each partition, by which the log rejects a second load of a range."""
    if entry.action is not Action.LOAD:
        return {}
    return {f"{one.topic}-{one.partition}": one.until_offset for one in entry.partitions}


def _partition_columns(layout: TableLayout) -> list[str]:
    parted = layout.partitioning
    return [] if parted is None or parted.is_spec else parted.names
