"""A table in Apache Iceberg's format, with the package `pyiceberg`.

Each commit is one snapshot: added and removed files with statistics, and the ledger's facts in the
snapshot's summary. The number of commits and the next offset of each partition are table
properties, changed together with the snapshot. A catalog accepts a commit only on top of the
snapshot for which it was made; after commits of other programs (compaction, expiry) it is repeated
on top of theirs, unless another writer made the commit of the same number.

Files are written with the field ids that the table's columns have, or will have after the commit;
the commit is rejected if the ids have changed by then. If pyiceberg
is not configured for the catalog, it is a SQLite file on this machine (`catalog_directory`).
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table import CreateTableTransaction, Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    update_table_metadata,
)
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    TimestamptzType,
)
from pyiceberg.utils.config import Config
from pyiceberg.utils.datetime import datetime_to_micros

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.times import second_text
from ottla.tables.columns.flat import is_flat, stored_path
from ottla.tables.columns.partitions import PartitionField
from ottla.tables.columns.statistics import LeafStatistics, Path
from ottla.tables.entries import DataFile, whole_files
from ottla.tables.files.column_types import check_columns, numbers
from ottla.tables.files.field_ids import struct_paths
from ottla.tables.files.plain_parquet import plain_type
from ottla.tables.formats.durable_files import DurableFileIO, local_path
from ottla.tables.formats.iceberg_deletes import Deletes, packed
from ottla.tables.formats.iceberg_quarantine import publish_quarantine
from ottla.tables.formats.iceberg_rules import check_rules, check_version
from ottla.tables.formats.iceberg_statistics import leaves_of, metrics, parsed_statistics, primitive
from ottla.tables.formats.rest_catalog import load_configured
from ottla.tables.formats.transaction_log import (
    Change,
    CommitTakenError,
    Committed,
    Contents,
    LogState,
    RefusedError,
    commit_taken,
    is_as_read,
    no_table,
    partition_values,
    version_made,
)
from ottla.tables.stores.store import TableStore, open_store

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_DIRECTORY = "metadata"
COMMIT_COUNT = "ottla.commit-count"
NEXT_OFFSET = "ottla.next-offset."
FACTS = "ottla.facts"
MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
"""Properties that Iceberg's own maintenance follows too."""

_ADDRESS = lazy_pattern(r"iceberg://([\w-]+)/((?:[\w-]+\.)+[\w-]+)")
_TRIES = 10
_EPOCH = date(1970, 1, 1)
_PROPERTIES = {
    # Each commit writes the complete metadata.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
    # Otherwise each snapshot's list names a manifest for each commit before it.
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
}
_OTHERS = ("pyiceberg", "sqlalchemy", "botocore", "thrift", "hive_metastore")
_Value = TypeVar("_Value")
_logger = logging.getLogger(__name__)


class IcebergLog:
    """Implements `TransactionLog` for one table of a catalog."""

    directory = METADATA_DIRECTORY
    has_transforms = True
    has_change_feed = False
    is_widened_by_readers = True
    replaces_masked = True

    def __init__(self, address: str) -> None:
        """Asks the catalog for the table's location, or its future one; creates nothing there."""
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise UserError(f"{address}: write iceberg://CATALOG/NAMESPACE.TABLE")
        self._address = address
        self._name = found[2]
        """The table's name in the catalog, including the namespace."""
        try:
            self._catalog = self._asked(
                lambda: _opened_catalog(found[1], self._name.rpartition(".")[0])
            )
            table = self._table()
        except UserError as error:
            variable = f"PYICEBERG_CATALOG__{found[1].replace('-', '_').upper()}__URI"
            error.add_note(f"catalogs are configured in ~/.pyiceberg.yaml or {variable}")
            raise
        try:
            metadata = self._asked(self._staged).table_metadata if table is None else table.metadata
        except NoSuchNamespaceError as error:
            raise UserError(
                f"{address}: the catalog has no such namespace; create it with: "
                f"pyiceberg --catalog {found[1]} create namespace {found[2].rpartition('.')[0]}"
            ) from error
        self._last: Table | None = None
        """As `state` found it: a commit begins with it, since the catalog refuses one on top of
        another snapshot, and the metadata of thousands takes long to parse."""
        self._location = metadata.location.rstrip("/")
        self.store: TableStore = open_store(local_path(self._location) or self._location)

    def state(self) -> LogState | None:
        self._last = table = self._table()
        return None if table is None else self._state_of(table)

    def field_ids(self, schema: "pa.Schema") -> Mapping[str, int]:
        table = self._last or self._table()
        transaction = self._staged(self._location) if table is None else _OneTry(table)
        _unite(transaction, schema)
        return index_by_name(transaction.table_metadata.schema())

    def check_names(self, columns: "pa.Schema") -> None:
        table = self._last or self._table()
        if table is None:
            return
        now = index_by_name(table.schema())
        names = {number: name for name, number in now.items()}
        for schema in table.schemas().values():
            before = index_by_name(schema)
            for path in struct_paths(columns):
                if path in before and now.get(path) != before[path]:
                    raise self._renamed(path, names.get(before[path]))

    def check_rules(self) -> None:
        table = self._last or self._table()
        if table is not None:
            check_version(self._address, table)
            check_rules(self._address, table.schema())

    def _renamed(self, path: str, name: str | None) -> UserError:
        if name is None:
            return UserError(
                f"{self._address}: another program has dropped the column {path}, whose values "
                f"readers do not find in the files any more; load into another table"
            )
        return UserError(
            f"{self._address}: another program has renamed the column {path} to {name}; rename it "
            f"back (ALTER TABLE {self._name} RENAME COLUMN {name} TO {path.rpartition('.')[2]}), "
            f"or load into another table"
        )

    def commit(self, change: Change) -> int:
        self.store.make_directories([METADATA_DIRECTORY])
        for number in range(_TRIES):
            table = self._table() if number or self._last is None else self._last
            count = 0 if table is None else self._state_of(table).commit_count
            if count != change.commit_id:
                return version_made(self, self._address, change)
            try:
                return self._try(table, change)
            except (CommitTakenError, RefusedError):
                raise
            except Exception as error:
                is_same = _version(self._table()) == _version(table)
                if is_same and not isinstance(error, CommitFailedException):
                    raise self._failure(error) from error
                # Other programs have committed, perhaps properties alone, or this commit succeeded
                # and the response was lost.
        # Not `CommitTakenError`, after which the files are removed: the last commit may have
        # succeeded.
        raise UserError(f"{self._address}: other programs commit all the time; run it again")

    def history(self, since_commit: int) -> list[Committed]:
        found = []
        for snapshot in _lineage(self._current()):
            facts = None if snapshot.summary is None else snapshot.summary.get(FACTS)
            if facts is None:
                continue
            one = Committed(version=snapshot.snapshot_id, facts=json.loads(facts))
            if one.facts["commit_id"] < since_commit:
                break
            found.append(one)
        return found[::-1]

    def contents(self, version: int | None = None) -> Contents:
        table = self._current()
        snapshot = table.current_snapshot()
        if version is not None:
            snapshot = table.snapshot_by_id(version)
            if snapshot is None:
                raise UserError(f"{self._address} has no snapshot {version}; it may have expired")
        entries = self._entries_of(table, snapshot)
        found = [one.data_file for one in entries if one.data_file.content is DataFileContent.DATA]
        prefix = "_" if is_flat(table.schema().column_names) else ""
        columns = table.schema().as_struct().fields
        known = (f"{prefix}partition", f"{prefix}offset")
        fields = [field for field in columns if field.name in known]

        def place(file: IcebergFile) -> tuple[Any, ...]:
            bounds = file.lower_bounds or {}
            lowest = [
                from_bytes(primitive(field), bounds[field.field_id])
                for field in fields
                if field.field_id in bounds
            ]
            # Files of other programs may lack statistics.
            return len(lowest) < len(known), lowest, file.file_path

        paths = [self._relative(one.file_path) for one in sorted(found, key=place)]
        return Contents(paths=paths, kept=self._kept(table, entries))

    def _kept(self, table: Table, entries: Sequence[ManifestEntry]) -> dict[str, bytes]:
        deletes = Deletes(table.io, table.schema(), entries)
        return {} if deletes.is_none else packed(self._asked(deletes.masks), self._relative)

    def make_whole(self, places: Sequence[tuple[int, int]]) -> None:
        """Does nothing: a commit can replace any file."""

    def statistics(self, version: int | None = None) -> dict[str, dict[Path, LeafStatistics]]:
        table = self._current()
        snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
        leaves = list(leaves_of((), table.schema().fields))
        return {
            self._relative(one.file_path): parsed_statistics(one, leaves)
            for one in self._files_of(table, snapshot)
            if one.content is DataFileContent.DATA
        }

    def version_at(self, time_ms: int) -> int:
        log = self._current().metadata.snapshot_log
        before = [one.snapshot_id for one in log if one.timestamp_ms <= time_ms]
        if not before:
            raise UserError(f"{self._address} has no version of {second_text(time_ms)} UTC")
        return before[-1]

    def next_offset(self, application: str) -> int | None:
        found = self._current().properties.get(NEXT_OFFSET + application)
        return None if found is None else int(found)

    def repair(self, durable_version: int | None) -> None:
        """Does nothing: the catalog only names durable files (`durable_files.py`)."""

    def publish_quarantine(self, files: Sequence[DataFile], committed_ms: int) -> None:
        try:
            self._asked(
                lambda: publish_quarantine(self._catalog, self._name, self._location, files)
            )
        except UserError as error:
            # The commit is made; a catalog may let its user make no table.
            _logger.warning("the quarantine is not shown in the catalog: %s", error)

    def vacuum(self, retention_ms: int, *, is_dry: bool) -> list[str]:
        table = self._current()
        if table.properties.get("gc.enabled", "true").lower() == "false":
            raise UserError(
                f"{self._address}: gc.enabled is false, by which no file may be removed, such as "
                f"those that another table has too; set it to true first, if none does"
            )
        since_ms = SystemClock().now_ms() - retention_ms
        retained = _current_since(table, since_ms)
        wanted = {
            self._relative(one.file_path)
            for each in retained
            for one in self._files_of(table, each)
        }
        found = [one for one in self._data_until(since_ms) if one not in wanted]
        if is_dry:
            return found
        retained_ids = {one.snapshot_id for one in retained}
        expired = {one.snapshot_id for one in table.metadata.snapshots} - retained_ids
        if expired:
            self._asked(
                lambda: table.maintenance.expire_snapshots().by_ids(sorted(expired)).commit()
            )
        for path in found:
            self.store.delete(path)
        return found

    def _try(self, table: Table | None, change: Change) -> int:
        """Tries the commit once, and returns its snapshot; after an error of pyiceberg it may or
        may not have succeeded.
        """
        transaction = self._staged(self._location) if table is None else _OneTry(table)
        if table is not None:
            check_version(self._address, table)
        _grow(transaction, change)
        if change.has_new_rows:
            check_rules(self._address, transaction.table_metadata.schema())
        ids = index_by_name(transaction.table_metadata.schema())
        if any(ids.get(path) != number for path, number in change.field_ids.items()):
            # Another program has changed the columns since the files were written.
            raise commit_taken(self._address, change)
        counts = {COMMIT_COUNT: change.commit_id + 1}
        nexts = {NEXT_OFFSET + name: offset for name, offset in change.next_offsets.items()}
        transaction.set_properties({name: str(one) for name, one in {**counts, **nexts}.items()})
        update = transaction.update_snapshot({FACTS: json.dumps(change.facts)})
        removed = self._there(table, change)
        with update.overwrite() if removed else update.merge_append() as producer:
            for file in removed:
                producer.delete_data_file(file)
            for parts in whole_files(change.added):
                producer.append_data_file(self._data_file(transaction, parts))
        transaction.commit_transaction()
        return producer.snapshot_id

    def _staged(self, location: str | None = None) -> CreateTableTransaction:
        """Stages the table's creation with its first commit, which fails if it exists by then."""
        return self._catalog.create_table_transaction(
            self._name, Schema(), location, properties=_PROPERTIES
        )

    def _there(self, table: Table | None, change: Change) -> list[IcebergFile]:
        """The table's files to be removed; raises `CommitTakenError` if one is not current, or has
        lost rows since it was read.
        """
        wanted = {one.path for one in change.removed}
        if table is None or not wanted:
            return []
        entries = self._entries_of(table, table.current_snapshot())
        files = {self._relative(one.data_file.file_path): one.data_file for one in entries}
        contents = Contents(paths=list(files), kept=self._kept(table, entries))
        if not is_as_read(change, contents):
            raise commit_taken(self._address, change)
        return [files[path] for path in wanted]

    def _data_file(self, transaction: Transaction, parts: Sequence[DataFile]) -> IcebergFile:
        metadata = transaction.table_metadata
        values = partition_values(parts[0])
        fields = metadata.spec().fields
        if {field.name for field in fields} != set(values):
            raise RefusedError(
                f"{self._address}: another program has changed how the table is partitioned; "
                f"load into another table"
            )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._location}/{parts[0].path}",
            file_format=FileFormat.PARQUET,
            partition=Record(
                *(
                    partition_value(
                        field.transform,
                        metadata.schema().find_field(field.source_id).field_type,
                        values[field.name],
                    )
                    for field in fields
                )
            ),
            record_count=sum(one.row_count for one in parts),
            file_size_in_bytes=parts[0].size,
            spec_id=metadata.default_spec_id,
            **metrics(metadata.schema(), parts),
        )

    def _state_of(self, table: Table) -> LogState:
        snapshot, count = table.current_snapshot(), table.properties.get(COMMIT_COUNT)
        if count is None or snapshot is None:
            raise UserError(
                f"{self._address} is an Iceberg table that ottla did not load; name another"
            )
        return LogState(version=snapshot.snapshot_id, commit_count=int(count))

    def _files_of(self, table: Table, snapshot: Snapshot | None) -> list[IcebergFile]:
        return [one.data_file for one in self._entries_of(table, snapshot)]

    def _entries_of(self, table: Table, snapshot: Snapshot | None) -> list[ManifestEntry]:
        if snapshot is None:
            return []
        return self._asked(
            lambda: [
                entry
                for manifest in snapshot.manifests(table.io)
                for entry in manifest.fetch_manifest_entry(table.io)
            ]
        )

    def _data_until(self, time_ms: int) -> list[str]:
        """Data files written until then, including those not in the table."""
        files = self.store.find("data")
        asked = [self.store.arrow_path(one.path) for one in files]
        found = zip(files, self.store.arrow().get_file_info(asked), strict=True)
        return [
            file.path
            for file, info in found
            if info.mtime_ns is not None and info.mtime_ns // 1_000_000 <= time_ms
        ]

    def _relative(self, location: str) -> str:
        """A file's path below the table; Spark writes `file:/lake`, where others have
        `file:///lake`.
        """
        if location.startswith(f"{self._location}/"):
            return location[len(self._location) + 1 :]
        own, other = local_path(self._location), local_path(location)
        if own is None or other is None or not other.startswith(f"{own}/"):
            return location
        return other[len(own) + 1 :]

    def _table(self) -> Table | None:
        try:
            return self._asked(lambda: self._catalog.load_table(self._name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _current(self) -> Table:
        table = self._table()
        if table is None:
            raise no_table(self._address)
        return table

    def _asked(self, ask: Callable[[], _Value]) -> _Value:
        try:
            return ask()
        except (NoSuchTableError, NoSuchNamespaceError):
            raise
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> Exception:
        is_theirs = type(error).__module__.partition(".")[0] in _OTHERS
        if isinstance(error, UserError) or not (
            is_theirs or isinstance(error, OSError | ValueError)
        ):
            return error
        return UserError(f"{self._address}: {' '.join(str(error).split())}")


class _OneTry(Transaction):
    """A transaction that pyiceberg does not repeat on top of other commits, which could duplicate
    rows.

    What it does is decided on the table's metadata without its older snapshots, which pyiceberg
    copies each time that it looks at them: a table may have thousands.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        current = table.current_snapshot()
        self._begin = table.metadata.model_copy(
            update={"snapshots": [] if current is None else [current], "snapshot_log": []}
        )

    @property
    def table_metadata(self) -> TableMetadata:
        return update_table_metadata(self._begin, self._updates)

    def commit_transaction(self) -> Table:
        requirements = (*self._requirements, AssertTableUUID(uuid=self.table_metadata.table_uuid))
        expired = _expired(self._table, SystemClock().now_ms())
        removal = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired})
        updates = (*self._updates, removal) if expired else self._updates
        self._table.catalog.commit_table(self._table, requirements, updates)
        return self._table


def catalog_directory(name: str) -> str:
    """The directory of the catalog and its tables if pyiceberg is not configured for it."""
    return os.path.join(os.path.expanduser("~"), ".local/share/ottla/iceberg", name)


def _opened_catalog(name: str, namespace: str) -> Catalog:
    """Opens the catalog; creates the one on this machine and the namespace if missing."""
    io = {"py-io-impl": f"{DurableFileIO.__module__}.{DurableFileIO.__qualname__}"}
    # Of a metastore that does not answer it prints what its error says.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    configured: Mapping[str, Any] | None = Config().get_catalog_config(name)
    if configured:
        return load_configured(name, {**io, **configured})
    directory = catalog_directory(name)
    os.makedirs(directory, exist_ok=True)
    uri, warehouse = f"sqlite:///{directory}/catalog.db", f"file://{directory}"
    made = load_catalog(name, type="sql", uri=uri, warehouse=warehouse, **io)
    made.create_namespace_if_not_exists(namespace)
    return made


def _grow(transaction: Transaction, change: Change) -> None:
    """Adds new columns and new fields; all of them to a new table."""
    if not change.added and transaction.table_metadata.schema().fields:
        return
    is_new = not transaction.table_metadata.schema().fields
    _unite(transaction, change.schema)
    has, wanted = (
        [] if one is None else list(one.fields)
        for one in (change.partitioned_before, change.partitioning)
    )
    names = {field.name for field in transaction.table_metadata.spec().fields}
    if not is_new and (has == wanted or names != {one.name for one in has}):
        # Nothing changes, or another program has changed it, which is refused with the files.
        return
    there = [] if is_new else has
    with transaction.update_spec() as parting:
        for field in there:
            if field not in wanted:
                parting.remove_field(field.name)
        for field in wanted:
            if field not in there:
                _add_field(parting, field, change)


def _add_field(parting: UpdateSpec, field: PartitionField, change: Change) -> None:
    assert change.partitioning is not None
    if not change.partitioning.is_spec:
        parting.add_identity(field.name)
        return
    width = f"[{field.width}]" if field.transform.has_width else ""
    column = ".".join(stored_path(field.path, is_flat=change.is_flat))
    parting.add_field(column, f"{field.transform.value}{width}", field.name)


def partition_value(transform: Any, source: IcebergType, text: str | None) -> Any:
    """A value of a directory's name as manifests have it."""
    if text is None:
        return None
    match str(transform).partition("[")[0]:
        case "year" | "month" | "day" | "hour" as unit:
            return _time_number(unit, [int(one) for one in text.split("-")])
        case "bucket":
            return int(text)
    if isinstance(source, DateType):
        return (date.fromisoformat(text) - _EPOCH).days
    if isinstance(source, BooleanType):
        return text == "true"
    if isinstance(source, DecimalType):
        return Decimal(text)
    if isinstance(source, TimestamptzType):
        return datetime_to_micros(datetime.fromisoformat(text))
    return int(text) if isinstance(source, IntegerType | LongType) else text


def _time_number(unit: str, parts: Sequence[int]) -> int:
    """The units since 1970 of a time in parts: year, month, day, hour."""
    if unit == "year":
        return parts[0] - 1970
    if unit == "month":
        return (parts[0] - 1970) * 12 + parts[1] - 1
    days = (date(parts[0], parts[1], parts[2]) - _EPOCH).days
    return days if unit == "day" else days * 24 + parts[3]


def _unite(transaction: Transaction, wanted: "pa.Schema") -> None:
    """Adds columns, fields and wider numbers; raises `UserError` for columns of other types."""
    import pyarrow as pa

    there = transaction.table_metadata.schema().as_arrow()
    check_columns(
        pa.schema([one.with_type(plain_type(one.type)) for one in there]), wanted, numbers
    )
    specs = transaction.table_metadata.partition_specs
    partitions = {field.name for spec in specs for field in spec.fields}
    clash = next((name for name in wanted.names if name in partitions - {*there.names}), None)
    if clash is not None:
        raise UserError(
            f"a new column {clash} would have the name of a partition field that the table has, or "
            f"had; rename it, in a flat table by --rename {clash}={clash}_value"
        )
    with transaction.update_schema() as update:
        update.union_by_name(wanted)


def _version(table: Table | None) -> int | None:
    snapshot = None if table is None else table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def _lineage(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and its ancestors, newest first, as far as they have not expired."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _expired(table: Table, now_ms: int) -> list[int]:
    """The snapshots that the table's own properties let expire: none unless they name an age.

    Each commit writes all snapshots again, so only their expiry bounds what the next load costs.
    """
    age_ms = table.properties.get(MAX_SNAPSHOT_AGE)
    if age_ms is None:
        return []
    least = int(table.properties.get(MIN_SNAPSHOTS, 1))
    retained = _current_since(table, now_ms - int(age_ms))
    retained_ids = {one.snapshot_id for one in (*retained, *islice(_lineage(table), least))}
    return sorted({one.snapshot_id for one in table.metadata.snapshots} - retained_ids)


def _current_since(table: Table, time_ms: int) -> list[Snapshot]:
    """The snapshots that were current at `time_ms` or later, and those with a name."""
    named = {one.snapshot_id for one in table.metadata.refs.values()}
    found = [one for one in table.metadata.snapshots if one.snapshot_id in named]
    for snapshot in _lineage(table):
        if snapshot.snapshot_id not in named:
            found.append(snapshot)
        if snapshot.timestamp_ms <= time_ms:
            break
    return found
