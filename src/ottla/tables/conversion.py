"""Converts a table in ottla's former format to Delta Lake without copying rows.

The former manifest has one JSON file per commit with the contents of a ledger entry. The files
become the ledger, then one commit adds all current files, and then the manifest is removed. A crash
before that commit leaves a table in the former format, afterwards a Delta table; a repeated
conversion continues. Quarantined files are moved, because other engines' vacuums would remove them
from the old place.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.base.errors import CorruptionError, UserError
from ottla.base.values import dataclass
from ottla.tables.layout import RAW, TableLayout, layout_fields, parse_layout
from ottla.tables.ledger import LEDGER_DIRECTORY, Head
from ottla.tables.ledger_entries import (
    QUARANTINE_DIRECTORY,
    FileRole,
    LedgerEntry,
    entry_fields,
    folded_files,
    parse_entry,
    quarantine_of,
)
from ottla.tables.parquet_files import read_footer
from ottla.tables.table_directory import FORMER_MARKER, TableDirectory, change_of
from ottla.tables.transaction_log import Change

FORMER_MANIFEST = "_ottla/manifest"
_FORMER_QUARANTINE = "quarantine"
_FORMER_LISTS = ("_ottla/current.txt",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """The result of a conversion; `file_count` data files are in the table."""

    table: str
    commit_count: int
    file_count: int
    row_count: int


def convert(path: str) -> ConversionReport:
    """Converts a table in the former format to Delta Lake.

    Raises `UserError` if there is none, and `CorruptionError` if its manifest is damaged.
    """
    table = TableDirectory(path)
    if not table.store.has(FORMER_MARKER):
        if table.is_there():
            raise UserError(f"{table.address} has the present format; there is nothing to convert")
        raise UserError(f"{table.path} holds no table of ottla's former format")
    with table.store.claimed():
        if table.log.state() is not None:
            moved = table.ledger.entries()  # interrupted during the final cleanup
        else:
            entries = _with_layout(table, _former_entries(table))
            moved = [_moved(table, entry) for entry in entries]
            table.store.make_directories([LEDGER_DIRECTORY])
            for entry in moved:
                table.ledger.append(entry)
            table.log.commit(_first_change(table, moved))
        rows = [file for file in folded_files(moved) if file.role is FileRole.ROWS]
        for name in table.store.names(FORMER_MANIFEST):
            table.store.remove(f"{FORMER_MANIFEST}/{name}")
        for name in (*_FORMER_LISTS, FORMER_MARKER):
            table.store.remove(name)
    return ConversionReport(
        table=table.path,
        commit_count=len(moved),
        file_count=len({file.path for file in rows}),
        row_count=sum(file.row_count for file in rows),
    )


def _former_entries(table: TableDirectory) -> list[LedgerEntry]:
    names = [one for one in table.store.names(FORMER_MANIFEST) if one.endswith(".json")]
    found = []
    for number, name in enumerate(names):
        path = f"{FORMER_MANIFEST}/{name}"
        entry = parse_entry(f"{table.path}/{path}", table.store.read(path))
        if entry.commit_id != number:
            raise CorruptionError(f"{table.path}/{path}", 0, f"it is commit {entry.commit_id}")
        found.append(entry)
    if not found:
        raise UserError(f"{table.path} has no commit yet: load into an empty directory")
    return found


def _with_layout(table: TableDirectory, entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """The entries with the layout, which the marker file had, in the last one."""
    if any(entry.layout is not None for entry in entries):
        return list(entries)
    path = f"{table.path}/{FORMER_MARKER}"
    try:
        fields: dict[str, Any] = json.loads(table.store.read(FORMER_MARKER))
        layout: TableLayout = parse_layout(fields["layout"]) if "layout" in fields else RAW
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(path, 0, "it is not the marker of a table") from error
    return [*entries[:-1], replace(entries[-1], layout=layout_fields(layout))]


def _moved(table: TableDirectory, entry: LedgerEntry) -> LedgerEntry:
    """Moves an entry's quarantined files; returns the entry with their new paths."""
    files = []
    for file in entry.files:
        if f"/{_FORMER_QUARANTINE}/" not in file.path or file.role is FileRole.ROWS:
            files.append(file)
            continue
        target = _quarantined(file.path)
        if table.store.has(file.path) and file.path != target:
            table.store.move(file.path, target)
        files.append(replace(file, path=target))
    replaces = tuple(
        _quarantined(path) if f"/{_FORMER_QUARANTINE}/" in path else path for path in entry.replaces
    )
    return replace(entry, files=tuple(files), replaces=replaces)


def _quarantined(path: str) -> str:
    if path.startswith(f"{QUARANTINE_DIRECTORY}/"):
        return path
    directory, _, name = path.rpartition("/")
    return f"{quarantine_of(directory.removesuffix('/' + _FORMER_QUARANTINE))}/{name}"


def _first_change(table: TableDirectory, entries: Sequence[LedgerEntry]) -> Change:
    head = Head()
    for entry in entries:
        head = head.after(entry)
    rows = [file for file in folded_files(entries) if file.role is FileRole.ROWS]
    described = [part for file in rows for part in read_footer(table.store, file.path)]
    last = replace(
        entries[-1], partitions=tuple(head.loaded.values()), files=tuple(described), replaces=()
    )
    return replace(
        change_of(last, head.layout, ()), facts=entry_fields(entries[-1]), has_new_rows=True
    )
