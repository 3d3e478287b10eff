"""Finds the winning changes of a load, once for each partition.

One task reads keys and offsets of all changes of a partition and writes two small files: the last
offset of each key, in order of key, and the offsets of the rows that stay, in order. The tasks that
merge read the parts of these files that concern their files.

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
from ottla.tables.entries import DataFile, changes_of
from ottla.tables.files.data_files import part_batches
from ottla.tables.files.parquet_files import open_parquet, range_of
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.upserts.key_runs import KeyRuns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KEYS_AT_ONCE = 1_000_000

_GROUP_ROWS = 65_536
_GROUPS_AT_ONCE = 16
_CHUNK_OFFSETS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The winning changes of one partition; paths are relative to the table."""

    partition: int
    latest: str
    """The file of keys and their last offsets."""
    winners: str
    """The file of the offsets of rows that stay."""
    truncated: int = -1
    """The offset of the last truncation; -1 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolving:
    """The task that resolves partitions; `directory` is the load's, relative to the table."""

    table: str
    directory: str
    keys_at_once: int

    def resolve(self, changes: Mapping[int, Sequence[DataFile]]) -> list[str]:
        """Returns the resolution of each partition, as JSON."""
        store = open_store(self.table)
        found = [self._resolved(store, number, parts) for number, parts in changes.items()]
        return [json.dumps(asdict(one)) for one in found]

    def _resolved(self, store: TableStore, partition: int, parts: Sequence[DataFile]) -> Resolution:
        import pyarrow as pa

        name = f"{changes_of(self.directory)}/{{}}-{partition}-{secrets.token_hex(4)}"
        runs = KeyRuns(store, name.format("run"), self.keys_at_once)
        truncated = -1
        for part in parts:
            for changes, truncation in _changes(store, part):
                runs.add(changes)
                truncated = max(truncated, truncation)
        found = Resolution(
            partition=partition,
            latest=f"{name.format('latest')}.parquet",
            winners=f"{name.format('winners')}.parquet",
            truncated=truncated,
        )
        key, offset = pa.field("key", pa.binary()), pa.field("offset", pa.int64())
        winners = _OffsetSet()
        with _output(store, found.latest, pa.schema([key, offset])) as write:
            for rows in runs.windows():
                change = rows["change"].to_numpy()
                offsets = change >> 1
                write([rows["key"], pa.chunked_array([offsets])])
                winners.add(offsets[(change & 1 == 0) & (offsets > truncated)])
        with _output(store, found.winners, pa.schema([offset])) as write:
            for offsets in winners.in_order():
                write([pa.chunked_array([offsets])])
        return found


class LatestChanges:
    """Reads resolutions, one group of row groups at a time."""

    def __init__(self, store: TableStore, resolutions: Mapping[int, Resolution]) -> None:
        self._store = store
        self._resolutions = resolutions
        self._read: dict[tuple[str, tuple[int, ...]], pa.Table] = {}

    def stay(self, part: DataFile, offsets: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """A mask of the changes in a file that become rows."""
        import numpy as np

        path = self._resolutions[part.partition].winners
        stays = np.zeros(len(offsets), dtype=bool)
        for winners in self._within(path, "offset", (part.first_offset, part.last_offset)):
            stays |= np.isin(offsets, winners["offset"].to_numpy(), assume_unique=True)
        return stays

    def survive(
        self, part: DataFile, keys: "pa.ChunkedArray", offsets: "np.ndarray[Any, Any]"
    ) -> "np.ndarray[Any, Any]":
        """A mask of the rows in a table's file that no change supersedes."""
        import numpy as np
        import pyarrow.compute as pc

        found = self._resolutions.get(part.partition)
        if found is None:
            return np.ones(len(offsets), dtype=bool)
        last = np.full(len(offsets), -1, np.int64)
        for latest in self._within(found.latest, "key", part.keys):
            indices = pc.fill_null(pc.index_in(keys, latest["key"].combine_chunks()), -1)
            # Index -1 selects the appended -1, for keys that have not changed.
            there = np.append(latest["offset"].to_numpy(), -1)[indices.to_numpy()]
            last = np.maximum(last, there)
        return (offsets >= last) & (offsets > found.truncated)

    def may_change(self, part: DataFile) -> bool:
        """Whether a table's file may have superseded rows, according to its bounds."""
        found = self._resolutions.get(part.partition)
        if found is None:
            return False
        if part.keys is None or part.first_offset < found.truncated:
            return True
        pieces = self._within(found.latest, "key", part.keys)
        return any(_has_between(one["key"], part.keys) for one in pieces)

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


def _changes(store: TableStore, part: DataFile) -> "Iterator[tuple[pa.Table, int]]":
    """Yields keys with their changes, `offset * 2 + is_deleted`, and the last truncation among
    them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with open_parquet(store, part.path) as opened:
        for batch in part_batches(opened, part, ["key", "offset", "is_deleted"]):
            offsets = batch["offset"].to_numpy()
            is_deleted = batch["is_deleted"].to_numpy(zero_copy_only=False)
            is_keyed = pc.is_valid(batch["key"])
            rows = pa.table({"key": batch["key"], "change": offsets * 2 + is_deleted})
            if batch["key"].null_count:
                truncations = offsets[~is_keyed.to_numpy(zero_copy_only=False)]
                yield rows.filter(is_keyed), int(truncations.max())
            else:
                yield rows, -1


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
def _output(
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
