"""The last change of each key, for more keys than fit into memory.

Changes are aggregated as they are read. When there are too many keys, they are written to a file in
order of key, a run. `KeyRuns.windows` merges the runs, one range of keys at a time.
"""

import secrets
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.tables.files.parquet_files import open_parquet, range_of
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS_OF_A_RUN = 64
"""Row groups in a run. A merge holds one row group of each run in memory."""


@dataclass(slots=True)
class KeyRuns:
    """Rows of `key` and `change`, of which the highest change of each key is kept; with
    `keeps_all` all of them.

    Runs are files `{place}-*.parquet`; the caller removes their directory.
    """

    store: TableStore
    place: str
    keys_at_once: int
    keeps_all: bool = False
    runs: list[str] = field(default_factory=list)
    _held: "list[pa.Table]" = field(default_factory=list)
    _held_rows: int = 0

    def add(self, rows: "pa.Table") -> None:
        self._held.append(rows)
        self._held_rows += rows.num_rows
        if self._held_rows < self.keys_at_once:
            return
        found = _folded(self._held, keeps_all=self.keeps_all)
        self._held, self._held_rows = [found], found.num_rows
        # If fewer keys remain, the same keys change repeatedly and need no run.
        if found.num_rows > self.keys_at_once // 2:
            self._write(found.sort_by("key"))

    def windows(self) -> "Iterator[pa.Table]":
        """Yields all keys in order, each with its highest change, as tables of limited size."""
        if not self.runs:
            if self._held:
                yield _folded(self._held, keeps_all=self.keeps_all).sort_by("key")
            return
        if self._held_rows:
            self._write(_folded(self._held, keeps_all=self.keeps_all).sort_by("key"))
        yield from merged_runs(self.store, self.runs, self.keys_at_once, keeps_all=self.keeps_all)

    def _write(self, rows: "pa.Table") -> None:
        import pyarrow.parquet as pq

        path = f"{self.place}-{secrets.token_hex(4)}.parquet"
        group_rows = max(1, self.keys_at_once // GROUPS_OF_A_RUN)
        with self.store.output(path) as file:
            pq.write_table(rows, file, compression="zstd", row_group_size=group_rows)
        self.runs.append(path)
        self._held, self._held_rows = [], 0


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a run, with its first key."""

    path: str
    number: int
    first: bytes


def merged_runs(
    store: TableStore, runs: list[str], keys_at_once: int, *, keeps_all: bool
) -> "Iterator[pa.Table]":
    """Yields the rows of sorted files in order of key, as tables of limited size; all rows of a key
    are in one of them.
    """
    import pyarrow as pa

    groups = sorted(
        (one for path in runs for one in _groups_of(store, path)), key=lambda one: one.first
    )
    held: list[pa.Table] = []
    held_rows, rest_rows = 0, 0
    for number, group in enumerate(groups):
        rows = _read(store, group)
        held.append(rows)
        held_rows += rows.num_rows
        is_last = number + 1 == len(groups)
        # Wait until enough rows are new, so that the rest is not aggregated again for each row
        # group.
        if held_rows < keys_at_once + 2 * rest_rows and not is_last:
            continue
        # No row group that is still to be read has a key before this one.
        end = None if is_last else groups[number + 1].first
        ready, rest = _parted(_folded(held, keeps_all=keeps_all), end)
        held, held_rows, rest_rows = [rest], rest.num_rows, rest.num_rows
        if ready.num_rows:
            yield ready.sort_by("key")


def _groups_of(store: TableStore, path: str) -> Iterator[_Group]:
    with open_parquet(store, path) as opened:
        for number in range(opened.num_row_groups):
            bounds = range_of(opened.metadata.row_group(number), "key")
            yield _Group(path, number, _first_key(opened, number) if bounds is None else bounds[0])


def _first_key(opened: Any, number: int) -> bytes:
    """Reads the first key of a row group whose footer has no bounds, because its keys are long."""
    found: bytes = opened.read_row_group(number, ["key"])["key"][0].as_py()
    return found


def _read(store: TableStore, group: _Group) -> "pa.Table":
    with open_parquet(store, group.path) as opened:
        return opened.read_row_group(group.number)


def _parted(rows: "pa.Table", end: bytes | None) -> "tuple[pa.Table, pa.Table]":
    """The rows with keys before `end`, and the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if end is None:
        return rows, rows.slice(0, 0)
    is_ready = pc.less(rows["key"], pa.scalar(end, rows["key"].type))
    return rows.filter(is_ready), rows.filter(pc.invert(is_ready))


def _folded(tables: "list[pa.Table]", *, keeps_all: bool) -> "pa.Table":
    import pyarrow as pa

    whole = pa.concat_tables(tables)
    if keeps_all:
        return whole
    folded = whole.group_by("key").aggregate([("change", "max")])
    return folded.rename_columns(["key", "change"])
