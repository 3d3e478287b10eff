"""A table in Delta Lake's format, with the package `deltalake` (delta-rs).

Each commit is one Delta transaction: added and removed files with statistics, the next offset of
each partition as a `txn` action, and the ledger's facts in `commitInfo`. The commit number is also
a `txn` action, so of two writers of the same commit Delta rejects the second, while commits of
other programs (`OPTIMIZE`, `VACUUM`) may come in between.

Wider types are set in a transaction before the one with their files. After a crash between the two,
`repair` restores the types.

delta-rs does not sync files. After a power failure the last log entry or checkpoint in a directory
may be incomplete: neither was acknowledged, and `repair` removes them before the next commit. A
checkpoint is written every `CHECKPOINT_INTERVAL` versions.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.base.times import second_text
from ottla.objects.arrow_store import STORAGE_OPTIONS
from ottla.objects.refusal import refusal
from ottla.tables.columns.flat import is_flat
from ottla.tables.columns.statistics import ALWAYS, LeafStatistics, Path
from ottla.tables.entries import DataFile, whole_files
from ottla.tables.files.column_types import check_columns, grown_schema
from ottla.tables.formats.delta_entries import (
    COLUMNS_BEFORE,
    COMMITS,
    FACTS,
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    WIDENING,
    columns_sum,
    entry_of,
    entry_path,
    facts_of,
    is_whole,
    parsed_actions,
    parsed_statistics,
    statistics_of,
    transactions_of,
    written_actions,
)
from ottla.tables.formats.delta_rules import check_rules, refused_by_library
from ottla.tables.formats.delta_tail import DeltaTail, is_plain, is_plain_path
from ottla.tables.formats.quarantine_table import publish_quarantine
from ottla.tables.formats.transaction_log import (
    Change,
    Committed,
    Contents,
    LogState,
    commit_taken,
    is_as_read,
    no_table,
    partition_values,
    version_made,
)
from ottla.tables.stores.local_store import LocalStore
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import AddAction

CHECKPOINT_INTERVAL = 20
"""Versions between checkpoints: opening a table reads all entries after the last checkpoint, and a
checkpoint names all files of the table."""

WIDER_CHECKPOINTS = 2000
"""After each so many versions the interval grows by itself once: a checkpoint takes as long as the
table has files, and so the time for it stays the same in the mean."""

MAPPING = "delta.columnMapping.mode"
_VECTOR = "deletion_vector_"
_NO_COMMIT = -1
_HOUR_MS = 3_600_000
_ENTRY_NAME = lazy_pattern(r"(\d{20})\.json")
_CHECKPOINT_NAME = lazy_pattern(r"(\d{20})\.checkpoint\..*parquet")
_UNREADABLE = lazy_pattern(r"[?#]|%[0-9A-Fa-f]{2}")
"""Characters in a directory's name that delta-rs misinterprets, because it treats paths as URLs."""

_Value = TypeVar("_Value")


class DeltaLog:
    """Implements `TransactionLog`."""

    directory = LOG_DIRECTORY
    has_transforms = False
    has_change_feed = True
    is_widened_by_readers = False
    replaces_masked = False

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._opened: DeltaTable | None = None
        self._tail: DeltaTail | None = None
        self._durable_version = -1
        """All entries up to this version are durable."""
        with needed_for("a table of Delta Lake"):
            import deltalake  # noqa: F401
        found = None if store.is_shared else _UNREADABLE.search(store.address)
        if found is not None:
            raise UserError(
                f"{store.address}: Delta Lake's library cannot read a table in a directory with "
                f"{found[0]} in its path; choose another one"
            )

    def state(self) -> LogState | None:
        tail = self._followed()
        if tail is not None and (last := tail.transactions[COMMITS]) is not None:
            return LogState(version=tail.version, commit_count=last + 1)
        table = self._table()
        if table is None:
            return None
        state = self._state_of(table)
        self._follow(table, state)
        return state

    def _followed(self) -> DeltaTail | None:
        if self._tail is not None and not self._tail.advance():
            self._tail = None
        return self._tail

    def _follow(self, table: "DeltaTable", state: LogState) -> None:
        if isinstance(self._store, LocalStore) and self._asked(lambda: is_plain(table)):
            self._tail = DeltaTail(self._store, state.version)
            self._tail.transactions[COMMITS] = state.commit_count - 1

    def field_ids(self, schema: "pa.Schema") -> Mapping[str, int]:
        """Empty: files are matched by column names."""
        return {}

    def check_names(self, columns: "pa.Schema") -> None:
        """Does nothing: tables with other names than their files have are refused at once."""

    def check_rules(self) -> None:
        tail = self._followed()
        if tail is not None and tail.columns is not None:
            return  # They are those of the last commit, which was checked.
        table = self._table()
        if table is not None:
            self._check_rules(table)

    def _check_rules(self, table: "DeltaTable") -> None:
        settings = self._asked(table.metadata).configuration
        check_rules(self._store.address, settings, json.loads(table.schema().to_json()))

    def commit(self, change: Change) -> int:
        from deltalake.exceptions import DeltaError

        version = self._add_rows(change)
        if version is not None:
            return version
        # Delta rejects the commit if it does not fit what others commit from here on.
        table = self._table()
        state = None if table is None else self._state_of(table)
        if state is not None and state.commit_count != change.commit_id:
            return version_made(self, self._store.address, change)
        if change.removed and not (table and is_as_read(change, self._contents_of(table))):
            # Another program has rewritten the files: this commit would duplicate their rows.
            raise commit_taken(self._store.address, change)
        read_version = -1 if state is None else state.version
        try:
            if table is None:
                self._create(change)
            else:
                self._append(table, change)
        except (DeltaError, OSError) as error:
            state = self.state()
            if state is None or state.version == read_version:
                raise self._failure(error) from error
        version = read_version + 1
        if not self._is_made(version, change):  # Another program has committed in between.
            version = version_made(self, self._store.address, change)
        # Also entries of others from before `read_version`, if they came after `repair`.
        self._sync_entries(min(read_version, self._durable_version) + 1, version)
        self._made(version)
        return version

    def _add_rows(self, change: Change) -> int | None:
        """The version of a commit that only adds files; `None` for one that the library makes."""
        tail = self._followed()
        paths = [one.path for one in change.added]
        if tail is None or change.removed or not all(map(is_plain_path, paths)):
            return None
        if not self._fits(change, tail):
            return None
        while tail.transactions[COMMITS] == change.commit_id - 1:
            if tail.append(entry_of(change, tail.columns)):
                # Entries of others, too: they came after `repair`.
                self._sync_entries(self._durable_version + 1, tail.version)
                version = tail.version + 1
                self._made(version)
                return version
            if not tail.advance():
                self._tail = None
                return None
        return None

    def _fits(self, change: Change, tail: DeltaTail) -> bool:
        """Whether the table has the columns of a commit already."""
        columns = columns_sum(change)
        if change.added and tail.columns != columns:
            table = self._current()
            if (
                list(change.partition_columns) != self._asked(table.metadata).partition_columns
                or _grown(table, change) != table.schema()
            ):
                return False
            self._check_rules(table)
            tail.columns = columns
        return True

    def _made(self, version: int) -> None:
        self._durable_version = version
        if version and version % _checkpoint_interval(version) == 0:
            self._checkpoint(self._current(), version)
            # Opened again from there: the library reads all entries since a table was opened anew
            # for each commit.
            self._opened = None

    def _is_made(self, version: int, change: Change) -> bool:
        """Whether a version's entry is this commit's; the whole log is not listed."""
        if not self._store.has(entry_path(version)):
            return False
        try:
            actions = list(parsed_actions(self._store.read(entry_path(version))))
        except ValueError:
            return False
        infos = [one["commitInfo"] for one in actions if "commitInfo" in one]
        return [one.get(FACTS, {}).get("facts") for one in infos] == [dict(change.facts)]

    def history(self, since_commit: int) -> list[Committed]:
        table = self._current()
        limit = 2
        while True:
            found = self._asked(lambda limit=limit: table.history(limit))  # type: ignore[misc]
            ours = [_committed(one) for one in found if FACTS in one]
            if len(found) < limit or (ours and ours[-1].facts["commit_id"] <= since_commit):
                return [one for one in reversed(ours) if one.facts["commit_id"] >= since_commit]
            limit *= 8

    def contents(self, version: int | None = None) -> Contents:
        table = self._current() if version is None else self._at(version)
        self._check_unmapped(table)
        return self._contents_of(table)

    def make_whole(self, places: Sequence[tuple[int, int]]) -> None:
        # The library can remove a file with a deletion vector only as part of its own statements.
        table = self._current()
        prefix = "_" if is_flat(_column_names(table)) else ""
        wanted = " or ".join(
            f"({prefix}partition = {partition} and {prefix}offset = {offset})"
            for partition, offset in places
        )
        column = f"{prefix}offset"
        self._asked(lambda: table.update(updates={column: column}, predicate=wanted))
        self._opened = None

    def statistics(self, version: int | None = None) -> dict[str, dict[Path, LeafStatistics]]:
        import pyarrow as pa

        table = self._current() if version is None else self._at(version)
        actions = self._asked(lambda: table.get_add_actions(flatten=False))
        rows = pa.table(actions).to_pylist()
        return {unquote(one["path"]): parsed_statistics(one) for one in rows}

    def version_at(self, time_ms: int) -> int:
        # By timestamps in the entries: delta-rs uses modification times, which a copy changes.
        for one in self._asked(self._current().history):
            if one.get("timestamp", time_ms + 1) <= time_ms:
                return int(one["version"])
        raise UserError(f"{self._store.address} has no version of {second_text(time_ms)} UTC")

    def next_offset(self, application: str) -> int | None:
        known = self._tail.transactions if self._followed() is not None and self._tail else {}
        if application not in known:
            table = self._current()
            known[application] = self._asked(lambda: table.transaction_version(application))
        return known[application]

    def repair(self, durable_version: int | None) -> None:
        if self._tail is None and durable_version is not None:
            self._resume(durable_version)
        # What is followed was whole, and a power failure since would have ended this process.
        if not self._store.is_shared and self._followed() is None:
            self._remove_torn(-1 if durable_version is None else durable_version)
        self._restore_columns()

    def _resume(self, durable_version: int) -> None:
        """Follows the log from the last commit, if it was written here, without asking the library:
        opening the table takes as long as its log.

        Not if there is a later version: its writer may have been killed before it had written a
        checkpoint.
        """
        is_last = not self._store.has(entry_path(durable_version + 1))
        if isinstance(self._store, LocalStore) and is_last:
            self._tail = DeltaTail.resumed(self._store, durable_version)
            if self._tail is not None:
                self._durable_version = durable_version

    def _remove_torn(self, durable_version: int) -> None:
        """Removes a log entry and a checkpoint that a power failure left incomplete."""
        names = self._store.names(LOG_DIRECTORY)
        # Of a table of many loads only the last entries are looked at.
        new = f"{durable_version + 1:020d}"
        entries = [name for name in names if name >= new and _ENTRY_NAME.fullmatch(name)]
        while entries and not is_whole(self._store.read(f"{LOG_DIRECTORY}/{entries[-1]}")):
            self._store.delete(f"{LOG_DIRECTORY}/{entries.pop()}")
        if entries:
            # Other programs do not sync, and entries before a commit of ours must not be lost.
            self._store.sync([f"{LOG_DIRECTORY}/{one}" for one in entries])
        self._durable_version = int(entries[-1][:20]) if entries else durable_version
        checkpoint = next((one for one in reversed(names) if _CHECKPOINT_NAME.fullmatch(one)), None)
        if checkpoint is not None and not self._is_parquet(f"{LOG_DIRECTORY}/{checkpoint}"):
            self._store.delete(f"{LOG_DIRECTORY}/{checkpoint}")
            self._store.delete(LAST_CHECKPOINT)
        elif self._store.has(LAST_CHECKPOINT) and not _is_json(self._store.read(LAST_CHECKPOINT)):
            self._store.delete(LAST_CHECKPOINT)

    def publish_quarantine(self, files: Sequence[DataFile], committed_ms: int) -> None:
        publish_quarantine(self._store, files, committed_ms)

    def vacuum(self, retention_ms: int, *, is_dry: bool) -> list[str]:
        table = self._current()
        before = table.version()
        hours = -(-retention_ms // _HOUR_MS)

        def asked(is_dry: bool) -> list[str]:
            return table.vacuum(hours, dry_run=is_dry, enforce_retention_duration=False, full=True)

        found = self._asked(lambda: asked(True))
        # The library takes each deletion vector for a file that no version needs.
        kept = [one for one in found if one.rpartition("/")[2].startswith(_VECTOR)]
        if not is_dry and not kept:
            self._asked(lambda: asked(False))
            self._sync_entries(before + 1, self._current().version())
        left = sorted({*found} - {*kept})
        for path in left if kept and not is_dry else ():
            self._store.delete(path)
        return left

    def _state_of(self, table: "DeltaTable") -> LogState:
        last = self._asked(lambda: table.transaction_version(COMMITS))
        if last is None:
            raise UserError(
                f"{self._store.address} holds a Delta table that ottla did not load; name one that "
                f"it loaded, or an empty directory to load into"
            )
        self._check_unmapped(table)
        return LogState(version=table.version(), commit_count=last + 1)

    def _files_of(self, table: "DeltaTable") -> list[str]:
        actions = self._asked(lambda: table.get_add_actions(flatten=True))
        prefix = "_" if is_flat(_column_names(table)) else ""
        in_order = (f"min.{prefix}partition", f"min.{prefix}offset", "path")
        names = [name for name in in_order if name in actions.schema.names]
        found = zip(*(actions.column(name).to_pylist() for name in names), strict=True)
        # A file from another program may lack statistics.
        rows = sorted(found, key=lambda one: [_or_last(part) for part in one])
        return [unquote(one[-1]) for one in rows]

    def _check_unmapped(self, table: "DeltaTable") -> None:
        """Raises `UserError` if columns are not named in files as they are in the table."""
        mode = self._asked(table.metadata).configuration.get(MAPPING, "none")
        if mode != "none":
            raise UserError(
                f"{self._store.address}: another program has set {MAPPING} to {mode}, by which "
                f"columns have other names in files, as ottla neither reads nor writes them; ALTER "
                f"TABLE delta.`{self._store.address}` SET TBLPROPERTIES ('{MAPPING}' = 'none') "
                f"rewrites the files, or load into another table"
            )

    def _contents_of(self, table: "DeltaTable") -> Contents:
        paths = self._files_of(table)
        features = self._asked(table.protocol).reader_features or ()
        if "deletionVectors" not in features:
            return Contents(paths=paths)
        import numpy as np
        import pyarrow as pa

        masks = pa.table(self._asked(lambda: table.deletion_vectors().read_all()))
        pairs = zip(masks["filepath"].to_pylist(), masks["selection_vector"], strict=True)
        known = set(paths)
        kept = {}
        for uri, mask in pairs:
            parts = unquote(uri).split("/")
            ends = ("/".join(parts[number:]) for number in range(len(parts)))
            path = next(one for one in ends if one in known)
            # A vector may end with the last row that is deleted.
            whole = [*mask.as_py(), *[True] * (-len(mask) % 8)]
            kept[path] = np.packbits(whole).tobytes()
        return Contents(paths=paths, kept=kept)

    def _create(self, change: Change) -> None:
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            self._store.address,
            _schema(change.schema),
            [self._add(change, file) for file in whole_files(change.added)],
            "error",
            list(change.partition_columns),
            configuration=_settings(change),
            storage_options=STORAGE_OPTIONS if self._store.is_shared else None,
            commit_properties=_properties(change),
            post_commithook_properties=_no_hooks(),
        )

    def _append(self, table: "DeltaTable", change: Change) -> None:
        from deltalake.transaction import RemoveAction

        removed = [
            RemoveAction(
                parts[0].path,
                change.has_new_rows,
                change.committed_ms,
                parts[0].size,
                partition_values(parts[0]),
            )
            for parts in whole_files(change.removed)
        ]
        added = [self._add(change, parts) for parts in whole_files(change.added)]
        if change.has_new_rows:
            self._check_rules(table)
        schema = _grown(table, change) if change.added else table.schema()
        if (removed or change.change_data) and schema != table.schema():
            # The library cannot remove files and change the schema in one transaction. After a
            # crash here, a table has files with narrower types than its columns, until
            # `_restore_columns`.
            self._replace_columns(table, schema, change.commit_id)
            if schema != table.schema():
                raise commit_taken(self._store.address, change)
        if change.change_data:
            self._write_entry(table.version() + 1, change)
            return
        # Only mode "overwrite" accepts another schema; with this filter it replaces no file.
        is_as_before = schema == table.schema()
        table.create_write_transaction(
            [*removed, *added],
            "append" if is_as_before else "overwrite",
            schema,
            list(change.partition_columns),
            partition_filters=None if is_as_before else _no_files(table),
            commit_properties=_properties(change),
            post_commithook_properties=_no_hooks(),
        )

    def _write_entry(self, version: int, change: Change) -> None:
        """Writes an entry with change data, which the library does not."""
        is_new = self._store.put_new(entry_path(version), written_actions(entry_of(change)))
        # A store whose answer was lost may refuse the second attempt because of the first.
        if not is_new and not self._is_made(version, change):
            raise commit_taken(self._store.address, change)

    def _replace_columns(self, table: "DeltaTable", schema: "Schema", commit_id: int) -> None:
        table.create_write_transaction(
            [],
            "overwrite",
            schema,
            table.metadata().partition_columns,
            partition_filters=_no_files(table),
            commit_properties=_columns_properties(table, commit_id),
            post_commithook_properties=_no_hooks(),
        )
        table.update_incremental()
        self._store.sync([entry_path(table.version())])

    def _restore_columns(self) -> None:
        """Restores columns that a crashed writer widened before it committed the files.

        In an object store another writer may still be about to commit them: Delta then rejects
        either that commit, which starts again, or this one.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError

        state = self.state()
        if state is None or self.next_offset(WIDENING) != state.commit_count:
            return
        table = self._current()
        history = self._asked(table.history)
        entry = next((one for one in history if COLUMNS_BEFORE in one), None)
        if entry is None or self._files_of(self._at(entry["version"])) != self._files_of(table):
            # Another program has rewritten files with the wider types.
            return
        version = table.version()
        try:
            self._replace_columns(table, Schema.from_json(entry[COLUMNS_BEFORE]), _NO_COMMIT)
        except (DeltaError, OSError) as error:
            if self._current().version() == version:
                raise self._failure(error) from error

    def _add(self, change: Change, parts: Sequence[DataFile]) -> "AddAction":
        from deltalake.transaction import AddAction

        return AddAction(
            path=parts[0].path,
            size=parts[0].size,
            partition_values=partition_values(parts[0]),
            modification_time=change.committed_ms,
            data_change=change.has_new_rows,
            stats=statistics_of(parts),
        )

    def _checkpoint(self, table: "DeltaTable", version: int) -> None:
        """Writes a checkpoint durably, before older entries of the log are removed."""
        self._asked(table.create_checkpoint)
        mine = f"{version:020d}.checkpoint."
        made = [name for name in self._store.names(LOG_DIRECTORY) if name.startswith(mine)]
        self._store.sync([*(f"{LOG_DIRECTORY}/{name}" for name in made), LAST_CHECKPOINT])
        self._asked(table.cleanup_metadata)

    def _sync_entries(self, first: int, last: int) -> None:
        """Syncs log entries, including those of other writers."""
        self._store.sync([entry_path(one) for one in range(first, last + 1)])

    def _table(self) -> "DeltaTable | None":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            if self._opened is None:
                options = STORAGE_OPTIONS if self._store.is_shared else None
                self._opened = DeltaTable(self._store.address, storage_options=options)
            elif self._store.has(entry_path(self._opened.version() + 1)):
                # Only then: the library lists the whole log, which grows with each commit.
                self._opened.update_incremental()
        except TableNotFoundError:
            return None
        except Exception as error:
            raise self._failure(error) from error
        return self._opened

    def _current(self) -> "DeltaTable":
        table = self._table()
        if table is None:
            raise no_table(self._store.address)
        return table

    def _at(self, version: int) -> "DeltaTable":
        from deltalake import DeltaTable

        newest = self._current().version()
        if not 0 <= version <= newest:
            raise UserError(
                f"{self._store.address} has no version {version}; the newest is {newest}"
            )
        options = STORAGE_OPTIONS if self._store.is_shared else None
        return self._asked(
            lambda: DeltaTable(self._store.address, version=version, storage_options=options)
        )

    def _asked(self, ask: Callable[[], _Value]) -> _Value:
        try:
            return ask()
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> Exception:
        from deltalake.exceptions import DeltaError

        if not isinstance(error, DeltaError | OSError):
            return error
        if (refused := refused_by_library(self._store.address, str(error))) is not None:
            return refused
        return refusal(self._store.address, error)

    def _is_parquet(self, path: str) -> bool:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            pq.read_metadata(self._store.arrow_path(path), filesystem=self._store.arrow())
        except (pa.ArrowException, OSError):
            return False
        return True


def _no_files(table: "DeltaTable") -> Any:
    """A filter that matches no file."""
    return [("_partition" if is_flat(_column_names(table)) else "partition", "in", [])]


def _column_names(table: "DeltaTable") -> list[str]:
    return [field.name for field in table.schema().fields]


def _checkpoint_interval(version: int) -> int:
    return CHECKPOINT_INTERVAL * (1 + version // WIDER_CHECKPOINTS)


def _schema(schema: "pa.Schema") -> "Schema":
    from deltalake import Schema

    return Schema.from_arrow(schema)


def _settings(change: Change) -> dict[str, str | None]:
    """The properties of a new table."""
    settings: dict[str, str | None] = {"delta.checkpointInterval": str(CHECKPOINT_INTERVAL)}
    if change.has_change_feed:
        settings["delta.enableChangeDataFeed"] = "true"
    if change.statistics:
        # So that other writers write the same.
        always = [f"_{name}" if change.is_flat else name for name in ALWAYS]
        settings["delta.dataSkippingStatsColumns"] = ",".join([*always, *change.statistics])
    return settings


def _grown(table: "DeltaTable", change: Change) -> "Schema":
    """The table's columns with new columns and fields, and wider types."""
    import pyarrow as pa

    has = table.schema()
    columns = pa.schema(has)
    check_columns(columns, pa.schema(_schema(change.schema)))
    grown = grown_schema(columns, change.schema)
    return has if grown == columns else _schema(grown)


def _properties(change: Change) -> "CommitProperties":
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={FACTS: facts_of(change)},
        app_transactions=[
            Transaction(name, version) for name, version in transactions_of(change).items()
        ],
    )


def _columns_properties(table: "DeltaTable", commit_id: int) -> "CommitProperties":
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={COLUMNS_BEFORE: table.schema().to_json()},
        app_transactions=[Transaction(WIDENING, commit_id)],
    )


def _no_hooks() -> Any:
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def _committed(fields: Mapping[str, Any]) -> Committed:
    return Committed(version=fields["version"], facts=fields[FACTS]["facts"])


def _or_last(value: Any) -> tuple[bool, Any]:
    return value is None, value


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
