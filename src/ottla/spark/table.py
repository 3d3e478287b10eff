"""A table directory: Parquet files under `data/`, and the manifest that says which of them count.

Format page: docs/format/load-manifest.md. A load that was killed leaves data files that no entry
names, and perhaps a half-written entry under a temporary name: readers see neither, and the next
load removes both, but nothing whose name is not one that loads give.
"""

import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import (
    FileSystem,
    OsFileSystem,
    join,
    parent_directory,
    read_file,
    replace_file,
)
from ottla.spark.loading.quarantine import QUARANTINE_DIRECTORY
from ottla.spark.tables.announcements import announce
from ottla.spark.tables.layout import RAW, TableLayout, layout_fields, parse_layout
from ottla.spark.tables.manifest import (
    Action,
    DataFile,
    FileRole,
    ManifestEntry,
    current_files,
    entry_file_name,
    format_entry,
    parse_entry,
    parse_entry_file_name,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_schema(value_type: str = "binary") -> str:
    """What a load writes, in Spark's words: the record, and where it comes from."""
    return (
        f"key binary, value {value_type}, partition int, offset bigint, timestamp timestamp, "
        f"timestamp_type int, headers array<struct<key: string, value: binary>>, "
        f"topic string, commit_id bigint"
    )


TABLE_SCHEMA = table_schema()

OWN_DIRECTORY = "_ottla"
DATA_DIRECTORY = "data"
MARKER_FORMAT = "ottla table"
MARKER_VERSION = 2
READ_MARKER_VERSIONS = (1, 2)
"""A table of version 1 has no layout: it is `layout.RAW`."""

_TEMPORARY_SUFFIX = ".tmp"
_LOAD_DIRECTORY = re.compile(rf"({'|'.join(one.value for one in Action)})-\d{{20}}-[0-9a-f]{{8}}")
_INNER_DIRECTORY = re.compile(r"[^=/]+=[^/]*|" + QUARANTINE_DIRECTORY)
_LOAD_FILE = re.compile(r"\.?(part-.*\.parquet|_SUCCESS)(\.crc)?")
_SPARK_SCRATCH = "_temporary"
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")
_NAMES_SHOWN = 3


class TableDirectory:
    """The directory of one table. Nothing is written before `claim`."""

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        if re.match(r"[a-z][a-z0-9+.-]+://", path):
            raise UserError(f"{path}: a table is a directory of this machine, not an address")
        self.path = os.path.abspath(path)
        self.file_system = file_system or OsFileSystem()
        self._own = join(self.path, OWN_DIRECTORY)
        self._manifest = join(self._own, "manifest")
        self._data = join(self.path, DATA_DIRECTORY)
        self._marker = join(self._own, "table.json")
        self._known: list[ManifestEntry] = []
        """Entries read before: an entry never changes."""

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Makes the directory a table if it is empty, and keeps other loads out meanwhile.

        Raises `UserError` for a directory that holds anything else, and while another load runs;
        the lock ends with the process that holds it, however that ends.
        """
        is_ours = self._is_table()
        self._make_directory(self._own)
        lock = self.file_system.lock(join(self._own, "lock"))
        if lock is None:
            raise UserError(f"{self.path}: another load into this table is running")
        try:
            if not is_ours:
                self._write_marker()
            self._make_directory(self._manifest)
            self._make_directory(self._data)
            self._announce()
            yield
        finally:
            lock.release()

    def layout(self) -> TableLayout:
        """What the rows look like; that of raw ones where there is no table yet."""
        if self.file_system.status(self._marker) is None:
            return RAW
        return self._check_marker()

    def pin(self, layout: TableLayout) -> None:
        """Makes this the layout of what is loaded from now on; for who has claimed the table."""
        if layout != self.layout():
            self._write_marker(layout)

    def entries(self) -> list[ManifestEntry]:
        """Every commit, oldest first; raises `UserError` where there is no table."""
        if self.file_system.status(self._marker) is None:
            raise UserError(f"{self.path} holds no table that ottla loaded")
        self._check_marker()
        for commit_id in range(len(self._known), self._entry_count()):
            self._known.append(self._entry(commit_id))
        return list(self._known)

    def current_files(self) -> list[DataFile]:
        """The files that are the table now, in either role; raises as `entries` does."""
        try:
            return current_files(self.entries())
        except ValueError as error:
            raise CorruptionError(self._manifest, 0, str(error)) from error

    def commit(self, entry: ManifestEntry) -> None:
        """Publishes files that are on the disk: from here on their rows are there."""
        path = self._entry_path(entry.commit_id)
        assert self.file_system.status(path) is None, "a commit id is given once"
        replace_file(self.file_system, path, format_entry(entry))
        self._announce()

    def load_directory(self, commit_id: int, attempt: bytes, action: Action = Action.LOAD) -> str:
        """Where a commit's files go, relative to the table; `attempt` is four random bytes.

        The JVM of a load that was killed may write for a moment longer than its lock lives, so no
        two attempts at the same commit share a directory.
        """
        assert len(attempt) == 4
        return join(DATA_DIRECTORY, f"{action.value}-{commit_id:020d}-{attempt.hex()}")

    def remove_leftovers(self, entries: Sequence[ManifestEntry]) -> int:
        """Removes what killed loads left; returns how many data files that were."""
        self._remove_half_entries()
        committed = {file.path for entry in entries for file in entry.files}
        removed = 0
        for name in self._list(self._data):
            if not _LOAD_DIRECTORY.fullmatch(name):
                continue
            try:
                removed += self._remove_uncommitted(join(DATA_DIRECTORY, name), committed)
            except OSError as error:
                # The JVM of a load that was just killed is still at it: the next load's work.
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise
        return removed

    def remove_files(self, paths: Sequence[str]) -> None:
        """Removes data files (relative paths) that no reader wants any more."""
        for path in paths:
            directory, name = parent_directory(path), path.rsplit("/", 1)[-1]
            for each in (path, join(directory, f".{name}.crc")):
                if self.file_system.status(join(self.path, each)) is not None:
                    self.file_system.remove(join(self.path, each))
            while directory != DATA_DIRECTORY and not self._list(join(self.path, directory)):
                self.file_system.remove_directory(join(self.path, directory))
                directory = parent_directory(directory)

    def size_of(self, path: str) -> int | None:
        """Bytes of a data file (relative path); `None` when it is not there."""
        status = self.file_system.status(join(self.path, path))
        return None if status is None else status.size

    def sync_files(self, paths: Sequence[str]) -> None:
        """Makes data files (relative paths) durable, which Spark does not."""
        for path in paths:
            file = self.file_system.open(join(self.path, path))
            try:
                file.sync()
            finally:
                file.close()
        for directory in sorted(_directories(paths)):
            self.file_system.sync_directory(join(self.path, directory))
        self.file_system.sync_directory(self.path)

    def _is_table(self) -> bool:
        if self.file_system.status(self._marker) is not None:
            self._check_marker()
            return True
        status = self.file_system.status(self.path)
        if status is None:
            return False
        if not status.is_directory:
            raise UserError(f"{self.path} is a file; a table needs a directory")
        names = self.file_system.list(self.path)
        if names == [OWN_DIRECTORY]:
            # A load killed while it claimed the directory got as far as this.
            mine = {"lock", "table.json" + _TEMPORARY_SUFFIX}
            names = [name for name in self._list(self._own) if name not in mine]
        if names:
            more = ", ..." if len(names) > _NAMES_SHOWN else ""
            raise UserError(
                f"{self.path} holds files that ottla did not load "
                f"({', '.join(names[:_NAMES_SHOWN])}{more}); load into an empty directory"
            )
        return False

    def _write_marker(self, layout: TableLayout = RAW) -> None:
        fields = {
            "format": MARKER_FORMAT,
            "version": MARKER_VERSION,
            "layout": layout_fields(layout),
        }
        replace_file(self.file_system, self._marker, (json.dumps(fields, indent=1) + "\n").encode())

    def _check_marker(self) -> TableLayout:
        try:
            fields = json.loads(read_file(self.file_system, self._marker))
            version = fields["version"]
            is_ours = fields["format"] == MARKER_FORMAT
            if is_ours and version in READ_MARKER_VERSIONS:
                return RAW if version == 1 else parse_layout(fields["layout"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptionError(self._marker, 0, "it marks no table") from error
        known = " and ".join(str(one) for one in READ_MARKER_VERSIONS)
        raise UserError(f"{self._marker}: a table of version {version!r}; this ottla knows {known}")

    def _entry_count(self) -> int:
        ids = sorted(
            commit_id
            for name in self._list(self._manifest)
            if (commit_id := parse_entry_file_name(name)) is not None
        )
        if ids != list(range(len(ids))):
            missing = min(set(range(ids[-1])).difference(ids))
            raise CorruptionError(self._entry_path(missing), 0, "the entry is missing")
        return len(ids)

    def _entry(self, commit_id: int) -> ManifestEntry:
        path = self._entry_path(commit_id)
        entry = parse_entry(path, read_file(self.file_system, path))
        if entry.commit_id != commit_id:
            raise CorruptionError(path, 0, f"it says that it is commit {entry.commit_id}")
        return entry

    def _entry_path(self, commit_id: int) -> str:
        return join(self._manifest, entry_file_name(commit_id))

    def _make_directory(self, path: str) -> None:
        """Makes a directory, and its parents where they are missing, so that it lasts."""
        is_missing = self.file_system.status(path) is None
        if is_missing:
            self._make_directory(parent_directory(path))
            self.file_system.make_directory(path)
        if is_missing or path.startswith(self.path):
            # Also when it is there: who made it may have been killed before this.
            self.file_system.sync_directory(parent_directory(path))

    def _remove_half_entries(self) -> None:
        for name in self._list(self._manifest):
            stem = name.removesuffix(_TEMPORARY_SUFFIX)
            if stem != name and parse_entry_file_name(stem) is not None:
                self.file_system.remove(join(self._manifest, name))

    def _remove_uncommitted(self, directory: str, committed: set[str]) -> int:
        """Empties a load's directory of what it wrote in vain, and removes it when that is all.

        `directory` is relative to the table.
        """
        removed = 0
        for name in self._list(join(self.path, directory)):
            path = join(directory, name)
            if name == _SPARK_SCRATCH:
                self._remove_tree(join(self.path, path))
            elif _LOAD_FILE.fullmatch(name) and not _belongs(directory, name, committed):
                self.file_system.remove(join(self.path, path))
                removed += 1
            elif _INNER_DIRECTORY.fullmatch(name) and self._is_directory(join(self.path, path)):
                removed += self._remove_uncommitted(path, committed)
        if not self._list(join(self.path, directory)):
            self.file_system.remove_directory(join(self.path, directory))
        return removed

    def _is_directory(self, path: str) -> bool:
        status = self.file_system.status(path)
        return status is not None and status.is_directory

    def _announce(self) -> None:
        announce(self.file_system, self._own, self.entries(), self.current_files())

    def _remove_tree(self, path: str) -> None:
        status = self.file_system.status(path)
        if status is None or not status.is_directory:
            self.file_system.remove(path)
            return
        for name in self.file_system.list(path):
            self._remove_tree(join(path, name))
        self.file_system.remove_directory(path)

    def _list(self, directory: str) -> list[str]:
        status = self.file_system.status(directory)
        return [] if status is None else self.file_system.list(directory)


def table_files(path: str) -> list[str]:
    """The paths of the Parquet files that are the table, for readers of any kind."""
    table = TableDirectory(path)
    return [
        join(table.path, file.path) for file in table.current_files() if file.role is FileRole.ROWS
    ]


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The rows of all committed loads, and no others."""
    files = [spark_path(file, is_pattern=True) for file in table_files(path)]
    schema = table_schema(TableDirectory(path).layout().value_type)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files)


def spark_path(path: str, *, is_pattern: bool = False) -> str:
    """A path of this machine for Spark, whatever its default file system; patterns are escaped."""
    escaped = _GLOB_CHARACTERS.sub(r"\\\1", path) if is_pattern else path
    return f"file://{escaped}"


def _directories(paths: Sequence[str]) -> set[str]:
    """All directories between the table and its files, relative to it."""
    found = {DATA_DIRECTORY}
    for path in paths:
        while (path := parent_directory(path)) and path not in found:
            found.add(path)
    return found


def _belongs(directory: str, name: str, committed: set[str]) -> bool:
    """Whether a committed file is meant, or the checksum that Hadoop keeps beside it."""
    is_checksum = name.startswith(".") and name.endswith(".crc")
    file_name = name[1 : -len(".crc")] if is_checksum else name
    return join(directory, file_name) in committed
