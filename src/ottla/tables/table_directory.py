"""A table: Parquet files under `data/`, and the manifest that says which of them count.

Format page: docs/format/load-manifest.md. A load that was killed leaves data files that no entry
names, and in a directory perhaps a half-written entry under a temporary name: readers see neither,
and the next load into a directory removes both, but nothing whose name is not one that loads give.
In an object store, where others may be at work, a vacuum does.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, join
from ottla.tables.announcements import announce
from ottla.tables.layout import RAW, TableLayout, layout_fields, parse_layout
from ottla.tables.leftovers import checksum_of, is_beside, leftover_of
from ottla.tables.local_store import LocalStore
from ottla.tables.manifest import (
    MANIFEST_DIRECTORY,
    Action,
    DataFile,
    ManifestEntry,
    current_files,
    entry_path,
    format_entry,
    parse_entry,
    parse_entry_file_name,
)
from ottla.tables.store import TableStore, open_store

OWN_DIRECTORY = "_ottla"
DATA_DIRECTORY = "data"
MARKER = "_ottla/table.json"
MARKER_FORMAT = "ottla table"
MARKER_VERSION = 2
READ_MARKER_VERSIONS = (1, 2)
"""A table of version 1 has no layout: it is `layout.RAW`."""
SHARED_MARKER_VERSION = 3
"""A table that several may write at once: its layouts are in its entries."""

_TEMPORARY_SUFFIX = ".tmp"
_NAMES_SHOWN = 3


class CommitTakenError(UserError):
    """Another writer has made the commit of that number."""


class TableDirectory:
    """One table, in a directory or in an object store. Nothing is written before `claim`."""

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        self.store: TableStore = (
            open_store(path) if file_system is None else LocalStore(path, file_system)
        )
        self._known: list[ManifestEntry] = []
        """Entries read before: an entry never changes."""
        self._pinned: TableLayout | None = None
        """What the next commit brings, where others may commit before it."""

    @property
    def path(self) -> str:
        """The directory, absolute, or the address."""
        return self.store.address

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Makes an empty directory a table, and keeps other writers out of a directory meanwhile.

        In an object store others may write meanwhile, which `commit` reports. Raises `UserError`
        for a place that holds anything else, while another load into a directory runs, and for a
        store that does not keep to the condition of a put.
        """
        is_ours = self._is_table()
        with self.store.claimed():
            if not is_ours or self.store.is_shared:
                self._mark()
            self.store.make_directories([MANIFEST_DIRECTORY, DATA_DIRECTORY])
            self._announce()
            yield

    def layout(self) -> TableLayout:
        """What the rows look like; that of raw ones where there is no table yet."""
        if not self.store.has(MARKER):
            return RAW
        pinned = self._check_marker()
        if pinned is not None:
            return pinned
        found = [entry.layout for entry in self.entries() if entry.layout is not None]
        try:
            return parse_layout(found[-1]) if found else RAW
        except (ValueError, TypeError, KeyError) as error:
            place = f"{self.path}/{MANIFEST_DIRECTORY}"
            raise CorruptionError(place, 0, "an entry has no layout of a table") from error

    def pin(self, layout: TableLayout) -> None:
        """Sets the layout of later loads; only for the writer that has claimed the table."""
        self._pinned = layout
        if not self.store.is_shared and layout != self.layout():
            self._write_marker(layout)

    def entries(self) -> list[ManifestEntry]:
        """Every commit, oldest first; raises `UserError` where there is no table."""
        if not self.store.has(MARKER):
            raise UserError(f"{self.path} holds no table that ottla loaded")
        self._check_marker()
        new = range(len(self._known), self._entry_count())
        paths = [entry_path(commit_id) for commit_id in new]
        for commit_id, content in zip(new, self.store.read_all(paths), strict=True):
            self._known.append(self._entry(commit_id, content))
        return list(self._known)

    def current_files(self) -> list[DataFile]:
        """The files that are the table now, in either role; raises as `entries` does."""
        try:
            return current_files(self.entries())
        except ValueError as error:
            raise CorruptionError(f"{self.path}/{MANIFEST_DIRECTORY}", 0, str(error)) from error

    def commit(self, entry: ManifestEntry) -> None:
        """Publishes files that are there to stay: from here on their rows are the table's.

        Raises `CommitTakenError` when another writer has made the commit of that number; the
        table is as that one left it then.
        """
        pinned, self._pinned = self._pinned, None
        if self.store.is_shared and pinned is not None and pinned != self.layout():
            entry = replace(entry, layout=layout_fields(pinned))
        content = format_entry(entry)
        path = entry_path(entry.commit_id)
        try:
            self.store.create(path, content)
        except FileExistsError as error:
            # Ours, if the answer to a first try was lost and the store's client tried again.
            if self.store.read(path) != content:
                raise CommitTakenError(
                    f"{self.path}: another writer has made commit {entry.commit_id} meanwhile, and "
                    f"nothing was changed; run it again"
                ) from error
        self._announce()

    def load_directory(self, commit_id: int, attempt: bytes, action: Action = Action.LOAD) -> str:
        """Where a commit's files go, relative to the table; `attempt` is four random bytes.

        Tasks of a load that was killed may write for a moment longer than its lock lives, so no
        two attempts at the same commit share a directory.
        """
        assert len(attempt) == 4
        return join(DATA_DIRECTORY, f"{action.value}-{commit_id:020d}-{attempt.hex()}")

    def remove_leftovers(
        self, entries: Sequence[ManifestEntry], before_ms: int | None = None
    ) -> int:
        """Removes what killed loads left; returns how many data files that were.

        In a store that others write to meanwhile, that is what can be a commit's no more, and what
        was written before `before_ms`; without it nothing is looked for.
        """
        if self.store.is_shared and before_ms is None:
            return 0
        committed = {file.path for entry in entries for file in entry.files}
        removed = 0
        for file in self.store.find(DATA_DIRECTORY):
            commit_id = leftover_of(file.path, committed)
            if commit_id is None:
                continue
            may_be_committed = self.store.is_shared and commit_id >= len(entries)
            if may_be_committed and self.store.modified_ms(file.path) > (before_ms or 0):
                continue
            self.store.remove(file.path)
            removed += not is_beside(file.path)
        for name in self.store.names(MANIFEST_DIRECTORY):
            stem = name.removesuffix(_TEMPORARY_SUFFIX)
            if stem != name and parse_entry_file_name(stem) is not None:
                self.store.remove(join(MANIFEST_DIRECTORY, name))
        self.store.remove_empty(DATA_DIRECTORY)
        return removed

    def remove_files(
        self, paths: Sequence[str], on_removal: Callable[[str], None] = lambda _: None
    ) -> None:
        """Removes data files (relative paths) that no reader wants any more.

        `on_removal` hears of each just before it goes.
        """
        for path in paths:
            on_removal(path)
            self.store.remove(path)
            if not self.store.is_shared:
                self.store.remove(checksum_of(path))
        self.store.remove_empty(DATA_DIRECTORY)

    def sizes(self) -> dict[str, int]:
        """Bytes of all data files that are there, the table's or not."""
        return {file.path: file.size for file in self.store.find(DATA_DIRECTORY)}

    def _is_table(self) -> bool:
        if self.store.has(MARKER):
            self._check_marker()
            return True
        names = self.store.names("")
        if names == [OWN_DIRECTORY]:
            # A load killed while it claimed the directory got as far as this.
            mine = {"lock", "table.json" + _TEMPORARY_SUFFIX}
            names = [name for name in self.store.names(OWN_DIRECTORY) if name not in mine]
        if names:
            more = ", ..." if len(names) > _NAMES_SHOWN else ""
            raise UserError(
                f"{self.path} holds files that ottla did not load "
                f"({', '.join(names[:_NAMES_SHOWN])}{more}); load into an empty directory"
            )
        return False

    def _mark(self) -> None:
        """Makes the marker; in an object store also asks twice, whether a put takes a condition."""
        if not self.store.is_shared:
            self._write_marker(RAW)
            return
        content = _marker({"version": SHARED_MARKER_VERSION})
        for _ in range(2):
            try:
                self.store.create(MARKER, content)
            except FileExistsError:
                self._check_marker()
                return
        raise UserError(
            f"{self.path}: this store puts an object where there is one, although it was asked to "
            f"only when there is none; a table needs a store with conditional puts"
        )

    def _write_marker(self, layout: TableLayout) -> None:
        fields = {"version": MARKER_VERSION, "layout": layout_fields(layout)}
        self.store.replace(MARKER, _marker(fields))

    def _check_marker(self) -> TableLayout | None:
        """The layout; `None` where the entries have it."""
        path = f"{self.path}/{MARKER}"
        try:
            fields = json.loads(self.store.read(MARKER))
            version = fields["version"]
            is_ours = fields["format"] == MARKER_FORMAT
            if is_ours and version == SHARED_MARKER_VERSION:
                return None
            if is_ours and version in READ_MARKER_VERSIONS:
                return RAW if version == 1 else parse_layout(fields["layout"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptionError(path, 0, "it marks no table") from error
        known = ", ".join(str(one) for one in READ_MARKER_VERSIONS)
        raise UserError(
            f"{path}: a table of version {version!r}; this ottla knows {known} and "
            f"{SHARED_MARKER_VERSION}"
        )

    def _entry_count(self) -> int:
        ids = sorted(
            commit_id
            for name in self.store.names(MANIFEST_DIRECTORY)
            if (commit_id := parse_entry_file_name(name)) is not None
        )
        if ids != list(range(len(ids))):
            missing = min(set(range(ids[-1])).difference(ids))
            raise CorruptionError(f"{self.path}/{entry_path(missing)}", 0, "the entry is missing")
        return len(ids)

    def _entry(self, commit_id: int, content: bytes) -> ManifestEntry:
        path = f"{self.path}/{entry_path(commit_id)}"
        entry = parse_entry(path, content)
        if entry.commit_id != commit_id:
            raise CorruptionError(path, 0, f"it says that it is commit {entry.commit_id}")
        return entry

    def _announce(self) -> None:
        """Where others commit meanwhile, until what was written is what there is."""
        count = -1
        while count < len(entries := self.entries()):
            announce(self.store, entries, self.current_files())
            count = len(entries) if self.store.is_shared else sys.maxsize


def _marker(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps({"format": MARKER_FORMAT, **fields}, indent=1) + "\n").encode()
