"""The ledger: facts of each commit that a table's log cannot express, in JSON.

Format page: docs/format/table-ledger.md. An entry is written after its commit, which also has these
facts in the log's history: after a crash in between, the next writer copies them
(`Table.claim`). Cleaning up that history does not affect the ledger. After every `ROLLED`
commits their entries are combined in one file that ends with the sum of all entries, so opening a
table reads only the end of the last such file, or the last entry, which has the sum too.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Self

from ottla.base.errors import CorruptionError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.tables.entries import (
    LedgerEntry,
    LoadedPartition,
    entry_fields,
    format_entry,
    loaded_partitions,
    parse_entry,
    parse_partition,
    partition_fields,
    row_size_of,
)
from ottla.tables.layout import RAW, TableLayout, layout_fields, parse_layout
from ottla.tables.stores.store import TableStore

LEDGER_DIRECTORY = "_ottla/ledger"
ROLLED = 100
"""The number of commits whose entries are combined in one file."""

_STATE = "state"
"""In an entry's own file: the sum of all entries up to it, which a combined file ends with."""

_NAME = lazy_pattern(r"(\d{20})\.(jsonl|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What a commit continues: the sum of all entries."""

    commit_count: int = 0
    layout: TableLayout = RAW
    loaded: Mapping[int, LoadedPartition] = field(default_factory=dict)
    """The last load by partition; the next load begins at its end."""
    row_size: float | None = None
    """Bytes of Parquet per row in the last commit with rows."""
    asked_ms: int | None = None
    """When a load last read the log's end offsets."""
    version: int | None = None
    """The version of the table's log that the last commit made, and all before it, are durable."""

    def after(self, entry: LedgerEntry) -> Self:
        """The state after a commit; bounds of a load that a subclass adds stay."""
        asked = [one for one in (self.asked_ms, entry.asked_ms) if one is not None]
        return replace(
            self,
            commit_count=entry.commit_id + 1,
            layout=self.layout if entry.layout is None else parse_layout(entry.layout),
            loaded={**self.loaded, **loaded_partitions([entry])},
            row_size=row_size_of(entry.files) or self.row_size,
            asked_ms=max(asked, default=None),
            version=self.version if entry.version is None else entry.version,
        )


class Ledger:
    """The entries of a table from its first commit on; entries are cached once read."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._known: list[LedgerEntry] = []
        self._state = TableState()

    def state(self) -> TableState:
        """Sums up all entries; raises `CorruptionError` as `entries` does."""
        rolled, single = self._names()
        state = self._state
        if rolled and state.commit_count < rolled[-1] + ROLLED:
            *_, last = self._lines(rolled[-1])
            state = self._parsed_state(rolled[-1], last)
        new = self._after(state.commit_count, single)
        later: list[int] = []
        while new:
            stored = self._stored_state(new[-1])
            if stored is not None:
                state = stored
                break
            later.insert(0, new.pop())
        for commit_id in later:
            try:
                state = state.after(self._single(commit_id))
            except (ValueError, TypeError, KeyError) as error:
                raise self._damaged(_entry_path(commit_id), str(error)) from error
        self._state = state
        return state

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first; raises `CorruptionError` if one is missing or damaged."""
        rolled, single = self._names()
        for first in rolled:
            if len(self._known) < first + ROLLED:
                self._check_next(first, first <= len(self._known))
                *lines, _ = self._lines(first)
                entries = [
                    parse_entry(f"{self._store.address}/{_rolled_path(first)}", line)
                    for line in lines
                ]
                self._known[first:] = entries
        for commit_id in self._after(len(self._known), single):
            self._known.append(self._single(commit_id))
        return list(self._known)

    def append(self, entry: LedgerEntry) -> None:
        """Writes an entry durably; a repair may write the same entry again."""
        state = self.state()
        fields = entry_fields(entry)
        if state.commit_count == entry.commit_id:
            # So that the next load reads this entry alone, however many there are.
            self._state = state = state.after(entry)
            fields[_STATE] = _state_fields(state)
        self._store.put(_entry_path(entry.commit_id), (json.dumps(fields) + "\n").encode())
        if (entry.commit_id + 1) % ROLLED == 0:
            self._roll_up(entry.commit_id + 1 - ROLLED)

    def _roll_up(self, first: int) -> None:
        """Combines the last entries in one file; after a crash entries may be in both places."""
        entries = [self._single(one) for one in range(first, first + ROLLED)]
        lines = [format_entry(one) for one in entries]
        lines.append((json.dumps(_state_fields(self.state())) + "\n").encode())
        # Durably before an entry is removed: a crash in between leaves entries in both places, and
        # the combined file is the one that is read.
        self._store.put(_rolled_path(first), b"".join(lines))
        rolled, single = self._names()
        for commit_id in single:
            if any(one <= commit_id < one + ROLLED for one in rolled):
                self._store.delete(_entry_path(commit_id))

    def _names(self) -> tuple[list[int], list[int]]:
        """First commits of combined files, and commits with a separate file, in order."""
        rolled: list[int] = []
        single: list[int] = []
        for name in self._store.names(LEDGER_DIRECTORY):
            found = _NAME.fullmatch(name)
            if found is not None:
                (rolled if found[2] == "jsonl" else single).append(int(found[1]))
        return sorted(rolled), sorted(single)

    def _after(self, count: int, single: Iterable[int]) -> list[int]:
        new = [one for one in single if one >= count]
        for expected, found in enumerate(new, count):
            self._check_next(expected, found == expected)
        return new

    def _check_next(self, commit_id: int, is_next: bool) -> None:
        if not is_next:
            raise self._damaged(_entry_path(commit_id), "the entry is missing")

    def _single(self, commit_id: int) -> LedgerEntry:
        path = _entry_path(commit_id)
        entry = parse_entry(f"{self._store.address}/{path}", self._store.read(path))
        if entry.commit_id != commit_id:
            raise self._damaged(path, f"it is the entry of commit {entry.commit_id}")
        return entry

    def _stored_state(self, commit_id: int) -> TableState | None:
        """The state that an entry of its own file ends with; `None` if its writer had none."""
        path = _entry_path(commit_id)
        try:
            fields = json.loads(self._store.read(path))
            return _parse_state(fields[_STATE]) if _STATE in fields else None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._damaged(path, str(error)) from error

    def _lines(self, first: int) -> list[bytes]:
        lines = self._store.read(_rolled_path(first)).splitlines()
        if len(lines) != ROLLED + 1:
            raise self._damaged(_rolled_path(first), f"it has {len(lines)} lines")
        return lines

    def _parsed_state(self, first: int, line: bytes) -> TableState:
        try:
            return _parse_state(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(_rolled_path(first), str(error)) from error

    def _damaged(self, path: str, reason: str) -> CorruptionError:
        return CorruptionError(f"{self._store.address}/{path}", 0, reason)


def _entry_path(commit_id: int) -> str:
    """The entry's file; its twenty digits, as in Kafka's segments, sort by number."""
    return f"{LEDGER_DIRECTORY}/{commit_id:020d}.json"


def _rolled_path(first: int) -> str:
    return f"{LEDGER_DIRECTORY}/{first:020d}.jsonl"


def _state_fields(state: TableState) -> dict[str, Any]:
    return {
        "commit_count": state.commit_count,
        "layout": layout_fields(state.layout),
        "loaded": [partition_fields(one) for one in state.loaded.values()],
        "row_size": state.row_size,
        "asked_ms": state.asked_ms,
        "version": state.version,
    }


def _parse_state(fields: Mapping[str, Any]) -> TableState:
    loaded = [parse_partition(one) for one in fields["loaded"]]
    return TableState(
        commit_count=int(fields["commit_count"]),
        layout=parse_layout(fields["layout"]),
        loaded={one.partition: one for one in loaded},
        row_size=fields["row_size"],
        asked_ms=fields["asked_ms"],
        version=fields.get("version"),
    )
