"""Finds the winning changes of a load, once for each scope of keys: a partition, or the table.

One task reads keys and ranks of all changes of a scope and writes small files: the last change of
each key, in order of key, and of each partition the offsets of the rows that stay, and of deletes,
in order. The tasks that merge read the parts of these files that concern their files.

Where a later record does not always win, other tasks first look for rows of the table that beat the
last changes of their keys.

A task holds at most `KEYS_AT_ONCE` keys in memory: more keys are written to sorted files and merged
at the end (`key_runs.py`). In addition it holds a bit for each offset of the load.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder, places_of
from ottla.tables.entries import DataFile, FileRole, changes_of
from ottla.tables.files.data_files import DataFiles, leaf_batches, part_batches
from ottla.tables.files.parquet_files import open_parquet, range_of
from ottla.tables.files.read_again import OtherRows, ReadAgain
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.upserts.key_runs import KeyRuns
from ottla.tables.writing.change_rows import IS_DELETED, MERGE_KEY, RANK

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KEYS_AT_ONCE = 1_000_000

_GROUP_ROWS = 65_536
_GROUPS_AT_ONCE = 16
_CHUNK_OFFSETS = 1 << 20

_Found = tuple[int, Any]
"""A partition, and ranks that were found for rows of it."""

_Places = tuple[int, "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]
"""Of a partition, the offsets of changes, and which of them are deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The winning changes of one scope; paths are relative to the table."""

    scope: int
    latest: str
    """The file of keys and their last changes, as ranks."""
    winners: Mapping[str, str]
    """By partition, the file of the offsets of rows that stay."""
    deleted: Mapping[str, str]
    """By partition, the file of the offsets of deletes that stay; empty if nobody needs them."""
    truncated: int = -1
    """The offset of the last truncation; -1 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolving:
    """The task that resolves scopes; `directory` is the load's, relative to the table."""

    table: str
    directory: str
    order: RowOrder
    keys_at_once: int

    def resolve(self, changes: Mapping[int, Sequence[DataFile]]) -> list[str]:
        """Returns the resolution of each scope, as JSON."""
        store = open_store(self.table)
        found = [self._resolved(store, scope, parts) for scope, parts in changes.items()]
        return [json.dumps(asdict(one)) for one in found]

    def _resolved(self, store: TableStore, scope: int, parts: Sequence[DataFile]) -> Resolution:
        import pyarrow as pa

        name = f"{changes_of(self.directory)}/{{}}-{scope}-{secrets.token_hex(4)}"
        runs = KeyRuns(
            store,
            name.format("run"),
            self.keys_at_once,
            keeps_all=self.order.history is not None,
        )
        truncated = -1
        for part in parts:
            for changes, truncation in _changes(store, part, self.order):
                runs.add(changes)
                truncated = max(truncated, truncation)
        latest = f"{name.format('latest')}.parquet"
        rank = pa.int64() if self.order.is_by_offset else pa.binary()
        fields = [pa.field("key", pa.binary()), pa.field("change", rank)]
        sets: dict[tuple[str, int], _OffsetSet] = {}
        with output_of_columns(store, latest, pa.schema(fields)) as write:
            for rows in runs.windows():
                write([rows["key"], rows["change"]])
                for partition, offsets, is_deleted in self._places(scope, rows["change"]):
                    there = offsets > truncated
                    for kind, some in (("winners", ~is_deleted), ("deleted", is_deleted)):
                        found = sets.setdefault((kind, partition), _OffsetSet())
                        found.add(offsets[some & there])
        written: dict[str, dict[str, str]] = {"winners": {}, "deleted": {}}
        for (kind, partition), found in sets.items():
            path = f"{name.format(kind)}-{partition}.parquet"
            if kind == "winners" or not self.order.is_by_offset:
                written[kind][str(partition)] = path
                _write_offsets(store, path, found)
        return Resolution(scope=scope, latest=latest, truncated=truncated, **written)

    def _places(self, scope: int, changes: "pa.ChunkedArray") -> "Iterator[_Places]":
        """The offsets of changes, by partition, and which of them are deletes."""
        import numpy as np

        if self.order.is_by_offset:
            change = changes.to_numpy()
            yield scope, change >> 1, change & 1 == 1
            return
        places = places_of(changes)
        for partition in np.unique(places["partition"]).tolist():
            some = places[places["partition"] == partition]
            yield partition, some["offset"].astype(np.int64), some["is_deleted"] == 1


def _write_offsets(store: TableStore, path: str, found: "_OffsetSet") -> None:
    import pyarrow as pa

    with output_of_columns(store, path, pa.schema([pa.field("offset", pa.int64())])) as write:
        for offsets in found.in_order():
            write([pa.chunked_array([offsets])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """The task that finds the rows of a table that beat the last changes of their keys; with
    `has_feed` also those that these change.
    """

    table: str
    directory: str
    order: RowOrder
    resolutions: Mapping[int, Resolution]
    again: ReadAgain
    has_feed: bool = False

    def find(self, parts: Sequence[DataFile]) -> list[str]:
        """Writes where the beaten changes are, and those whose keys had a row, if any; returns the
        paths of both files, which are empty for none.
        """
        store = open_store(self.table)
        changes = LatestChanges(store, self.order, self.resolutions)
        others = OtherRows(DataFiles(store), self.again)
        beaten: list[_Found] = []
        met: list[_Found] = []
        for part in parts:
            if not changes.may_change(part):
                continue
            rows = keyed_rows(store, part, self.order)
            if not self.order.is_by_offset:
                left = rows.filter(others.mask(part.partition, rows["offset"].to_numpy()))
                beaten += ((part.partition, one) for one in changes.beaten(part, left))
            if self.has_feed and part.role is FileRole.ROWS:
                met += ((part.partition, one) for one in changes.met(part, rows))
        return [self._written(store, "beaten", beaten), self._written(store, "met", met)]

    def _written(self, store: TableStore, name: str, found: "Sequence[_Found]") -> str:
        import numpy as np
        import pyarrow as pa

        partitions, offsets = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for partition, ranks in found:
            if self.order.is_by_offset:
                offsets.append(ranks.to_numpy() >> 1)
                partitions.append(np.full(len(ranks), partition, np.int32))
            else:
                places = places_of(ranks)
                offsets.append(places["offset"].astype(np.int64))
                partitions.append(places["partition"].astype(np.int32))
        if not any(map(len, offsets)):
            return ""
        path = f"{changes_of(self.directory)}/{name}-{secrets.token_hex(4)}.parquet"
        columns = {"partition": np.concatenate(partitions), "offset": np.concatenate(offsets)}
        rows = pa.table(columns)
        with output_of_columns(store, path, rows.schema) as write:
            write(rows.columns)
        return path


class LatestChanges:
    """Reads resolutions, one group of row groups at a time; `beaten` are files of `Meeting`."""

    def __init__(
        self,
        store: TableStore,
        order: RowOrder,
        resolutions: Mapping[int, Resolution],
        beaten: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._order = order
        self._resolutions = resolutions
        self._lost = offsets_by_partition(store, beaten)
        self._read: dict[tuple[str, tuple[int, ...]], pa.Table] = {}

    def stay(self, part: DataFile, offsets: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """A mask of the changes in a file that become rows."""
        return self._among(self._of(part).winners, part, offsets)

    def are_deletes(
        self, part: DataFile, offsets: "np.ndarray[Any, Any]"
    ) -> "np.ndarray[Any, Any]":
        """A mask of the changes in a file that are the last of their keys, and delete rows."""
        return self._among(self._of(part).deleted, part, offsets)

    def survive(self, part: DataFile, rows: "pa.Table") -> "np.ndarray[Any, Any]":
        """A mask of the rows in a table's file that no change supersedes, of `keyed_rows`."""
        import numpy as np
        import pyarrow.compute as pc

        found = self._resolutions.get(self._order.scope(part.partition))
        stays = np.ones(rows.num_rows, dtype=bool)
        if found is None:
            return stays
        for last in self._last_changes(found, part, rows):
            is_beaten = pc.fill_null(pc.less(rows["rank"], last), False)
            stays &= ~is_beaten.to_numpy()
        stays &= rows["offset"].to_numpy() > found.truncated
        return stays

    def beaten(self, part: DataFile, rows: "pa.Table") -> "Iterator[pa.ChunkedArray]":
        """The ranks of last changes that rows of the same keys beat."""
        import pyarrow.compute as pc

        found = self._resolutions.get(self._order.scope(part.partition))
        for last in () if found is None else self._last_changes(found, part, rows):
            yield last.filter(pc.fill_null(pc.greater(rows["rank"], last), False))

    def met(self, part: DataFile, rows: "pa.Table") -> "Iterator[pa.ChunkedArray]":
        """The ranks of last changes that have a row of the same key."""
        found = self._resolutions.get(self._order.scope(part.partition))
        for last in () if found is None else self._last_changes(found, part, rows):
            yield last.drop_null()

    def are_updated(self, part: DataFile, rows: "pa.Table") -> "np.ndarray[Any, Any]":
        """A mask of the rows in a table's file whose last change is another row."""
        import numpy as np
        import pyarrow.compute as pc

        found = self._resolutions.get(self._order.scope(part.partition))
        updated = np.zeros(rows.num_rows, dtype=bool)
        for last in () if found is None else self._last_changes(found, part, rows):
            if self._order.is_by_offset:
                is_row = pc.equal(pc.bit_wise_and(last, 1), 0)
            else:
                is_row = pc.equal(pc.binary_slice(last, -1), b"\x00")
            updated |= pc.fill_null(is_row, False).to_numpy()
        return updated

    def may_change(self, part: DataFile) -> bool:
        """Whether a table's file may have rows of changed keys, according to its bounds."""
        found = self._resolutions.get(self._order.scope(part.partition))
        if found is None:
            return False
        if part.keys is None or part.first_offset < found.truncated:
            return True
        pieces = self._within(found.latest, "key", part.keys)
        return any(_has_between(one["key"], part.keys) for one in pieces)

    def _of(self, part: DataFile) -> Resolution:
        return self._resolutions[self._order.scope(part.partition)]

    def _among(
        self, paths: Mapping[str, str], part: DataFile, offsets: "np.ndarray[Any, Any]"
    ) -> "np.ndarray[Any, Any]":
        import numpy as np

        found = np.zeros(len(offsets), dtype=bool)
        path = paths.get(str(part.partition))
        if path is None:
            return found
        for some in self._within(path, "offset", (part.first_offset, part.last_offset)):
            found |= np.isin(offsets, some["offset"].to_numpy(), assume_unique=True)
        lost = self._lost.get(part.partition)
        return found if lost is None else found & ~np.isin(offsets, lost)

    def _last_changes(
        self, found: Resolution, part: DataFile, rows: "pa.Table"
    ) -> "Iterator[pa.ChunkedArray]":
        """The rank of the last change of each row's key, null for others, by pieces of the file."""
        import pyarrow.compute as pc

        for latest in self._within(found.latest, "key", part.keys):
            indices = pc.index_in(rows["key"], latest["key"].combine_chunks())
            yield pc.take(latest["change"], indices)

    def _within(
        self, path: str, column: str, bounds: tuple[Any, Any] | None
    ) -> "Iterator[pa.Table]":
        """The row groups of a file that may have values within the bounds, both inclusive."""
        with open_parquet(self._store, path) as opened:
            numbers = _groups(opened, column, bounds)
            while groups := tuple(islice(numbers, _GROUPS_AT_ONCE)):
                if (path, groups) not in self._read:
                    self._read = {(path, groups): opened.read_row_groups(list(groups))}
                yield self._read[path, groups]


def _groups(opened: Any, column: str, bounds: tuple[Any, Any] | None) -> Iterator[int]:
    for number in range(opened.num_row_groups):
        there = range_of(opened.metadata.row_group(number), column)
        if bounds is None or there is None or (there[0] <= bounds[1] and bounds[0] <= there[1]):
            yield number


def _has_between(keys: "pa.ChunkedArray", bounds: tuple[bytes, bytes]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = (pa.scalar(one, keys.type) for one in bounds)
    within = pc.and_(pc.greater_equal(keys, first), pc.less_equal(keys, last))
    return bool(pc.any(within).as_py())


def keyed_rows(store: TableStore, part: DataFile, order: RowOrder) -> "pa.Table":
    """The rows of a table's file, or its deleted keys, as `key`, `rank` and `offset`."""
    import pyarrow as pa

    if part.role is FileRole.DELETED:
        return DataFiles(store).rows(part, ["key", "rank", "offset"])
    if order.is_by_offset:
        rows = DataFiles(store).rows(part, ["key", "offset"])
        return rows.append_column("rank", order.ranks(rows.combine_chunks()))
    with open_parquet(store, part.path, part.kept) as opened:
        batches = [
            pa.record_batch(
                {"key": order.keys(one), "rank": order.ranks(one), "offset": one["offset"]}
            )
            for one in leaf_batches(opened, part, order.paths)
        ]
    return pa.Table.from_batches(batches)


def _changes(
    store: TableStore, part: DataFile, order: RowOrder
) -> "Iterator[tuple[pa.Table, int]]":
    """Yields keys with their changes, as ranks, and the last truncation among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key, *others = ("key", IS_DELETED) if order.is_by_offset else (MERGE_KEY, RANK)
    with open_parquet(store, part.path) as opened:
        for batch in part_batches(opened, part, [key, "offset", *others]):
            if order.is_by_offset:
                is_deleted = batch[IS_DELETED].to_numpy(zero_copy_only=False)
                ranks = order.ranks(batch, is_deleted)
            else:
                ranks = batch[RANK]
            rows = pa.table({"key": batch[key], "change": ranks})
            if not batch[key].null_count:
                yield rows, -1
                continue
            is_keyed = pc.is_valid(batch[key])
            truncations = batch["offset"].filter(pc.invert(is_keyed))
            yield rows.filter(is_keyed), int(pc.max(truncations).as_py())


def offsets_by_partition(
    store: TableStore, paths: Sequence[str]
) -> "dict[int, np.ndarray[Any, Any]]":
    import numpy as np

    found: dict[int, np.ndarray[Any, Any]] = {}
    for path in paths:
        with open_parquet(store, path) as opened:
            rows = opened.read()
        partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
        for number in np.unique(partitions).tolist():
            some = offsets[partitions == number]
            found[number] = np.concatenate([found.get(number, some[:0]), some])
    return found


class _OffsetSet:
    """A set of offsets: one bit for each, in chunks that are allocated as needed."""

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray[Any, Any]] = {}

    def add(self, offsets: "np.ndarray[Any, Any]") -> None:
        import numpy as np

        in_order = np.sort(offsets)
        numbers, starts = np.unique(in_order // _CHUNK_OFFSETS, return_index=True)
        ends = [*starts, len(in_order)][1:]
        for number, start, end in zip(numbers.tolist(), starts, ends, strict=True):
            some = in_order[start:end]
            bits = self._chunks.get(number)
            flags = np.zeros(_CHUNK_OFFSETS, np.uint8) if bits is None else np.unpackbits(bits)
            flags[some - number * _CHUNK_OFFSETS] = 1
            self._chunks[number] = np.packbits(flags)

    def in_order(self) -> "Iterator[np.ndarray[Any, Any]]":
        import numpy as np

        for number, bits in sorted(self._chunks.items(), key=lambda one: one[0]):
            yield np.flatnonzero(np.unpackbits(bits)) + number * _CHUNK_OFFSETS


@contextmanager
def output_of_columns(
    store: TableStore, path: str, schema: "pa.Schema"
) -> "Iterator[Callable[[list[Any]], None]]":
    """Yields a function that writes columns to the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        store.output(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        yield lambda columns: writer.write_table(pa.table(columns, schema=schema), _GROUP_ROWS)
