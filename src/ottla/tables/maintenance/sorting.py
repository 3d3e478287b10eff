"""Sorts a table's rows by key or time, within each partition.

A partition that fits into one file is read and sorted by one task. A larger partition is sorted
externally: tasks sort each file into a run, then each new file is merged from a range of all runs;
row groups have bounds, so no other rows are read. Footers name the sort column, and a table that is
already sorted is left unchanged.
"""

import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.entries import (
    DataFile,
    changes_of,
    directory_like,
    whole_files,
)
from ottla.tables.files.data_files import BATCH_ROWS, DataFiles
from ottla.tables.files.parquet_files import (
    ParquetOutput,
    ParquetStyle,
    open_parquet,
    range_of,
    sorted_column,
)
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.writing.engine import OnTasks, no_tasks_shown, shared_out
from ottla.tables.writing.transaction import Transaction, wrong_rows

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS = 100_000
"""The number of values per partition from which the bounds of new files are estimated."""


class SortColumn(Enum):
    """The columns by which rows can be sorted; equal values stay in order of offset."""

    KEY = "key"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one partition from `low` (inclusive) to `high` (exclusive); nulls come last."""

    partition: int
    size: float
    """Approximate bytes."""
    low: Any = None
    high: Any = None

    def mask(self, values: Any) -> Any:
        """A mask of the values within the slice."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pa.repeat(True, len(values))
        if self.low is not None:
            at_least = pc.greater_equal(values, pa.scalar(self.low, values.type))
            found = pc.and_(found, pc.fill_null(at_least, self.high is None))
        if self.high is not None:
            below = pc.less(values, pa.scalar(self.high, values.type))
            found = pc.and_(found, pc.fill_null(below, False))
        return found

    def may_be_in(self, bounds: tuple[Any, Any] | None) -> bool:
        """Whether a row group with these bounds, and without nulls, may have rows of the slice."""
        if bounds is None:
            return True
        first, last = bounds
        return (self.high is None or first < self.high) and (self.low is None or self.low <= last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """A new file: slices of partitions, in order, and the files that have their rows."""

    table: str
    target: str
    column: SortColumn
    slices: Sequence[Slice]
    parts: Sequence[DataFile]
    style: ParquetStyle
    group_rows: int | None = None
    """The rows per row group of a run; `None` for a file of the table."""

    def write(self) -> list[str]:
        """Writes the file; returns its path, or nothing if it has no rows."""
        store = open_store(self.table)
        output = ParquetOutput(store, self.target, self.style, sorted_by=self.column.value)
        with output:
            for partition, rows in self._rows(store):
                for batch in rows.to_batches(max_chunksize=self.group_rows or BATCH_ROWS):
                    output.write(batch, partition)
                    if self.group_rows is not None:
                        output.flush()
            return [self.target] if output.close() else []

    def check(self) -> list[str]:
        """Reads all rows again; returns the path if the file differs."""
        store = open_store(self.table)
        expected = [rows for _, rows in self._rows(store) if rows.num_rows]
        if not expected:
            return []
        with open_parquet(store, self.target) as opened:
            start = 0
            for rows in expected:
                groups, count = [], 0
                while count < rows.num_rows and start < opened.num_row_groups:
                    groups.append(opened.read_row_group(start))
                    count += groups[-1].num_rows
                    start += 1
                found = _joined(groups, rows.schema) if groups else None
                if found is None or not found.equals(rows):
                    return [f"{self.target}, partition {rows['partition'][0]}"]
            return [] if start == opened.num_row_groups else [self.target]

    def _rows(self, store: TableStore) -> "Iterator[tuple[int, pa.Table]]":
        schema = DataFiles(store).columns(self.parts[0])
        order = [(self.column.value, "ascending"), ("offset", "ascending")]
        for one in self.slices:
            found = [
                rows
                for part in self.parts
                if part.partition == one.partition
                for rows in _read(store, part, one, self.column)
            ]
            yield one.partition, _joined(found, schema).sort_by(order)


@dataclass(slots=True, kw_only=True)
class SortJob:
    """Sorts `groups` of files that have the same schema and directory."""

    transaction: Transaction
    groups: Sequence[Sequence[DataFile]]
    column: SortColumn

    def run(self, on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes and checks the files; raises `TaskError` as `MergeJob.check` does."""
        runs: list[str] = []
        try:
            sortings = [sorting for group in self.groups for sorting in self._sortings(group, runs)]
            paths = self._carry_out(sortings, on_tasks)
        finally:
            self.transaction.table.remove_files(runs)
        return self.transaction.written(paths)

    def check(self, files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless each row is present exactly once, and `UserError` if one was
        present twice before.
        """
        parts = [part for group in self.groups for part in group]
        old = _counts(parts)
        twice = [number for number in old if self._offset_twice(files, number) is not None]
        for number in twice:
            offset = self._offset_twice(parts, number)
            if offset is not None:
                raise UserError(
                    f"{self.transaction.table.path}: another program has added rows with offsets "
                    f"that were there; delete both (DELETE ... WHERE partition = {number} AND "
                    f"offset = {offset}, ...), load them again with --rerun, and then sort"
                )
        if twice or old != _counts(files):
            raise wrong_rows(self.transaction.directory)

    def _offset_twice(self, files: Sequence[DataFile], partition: int) -> int | None:
        """An offset of the partition that is present more than once."""
        import numpy as np

        some = [file for file in files if file.partition == partition]
        opened = self.transaction.table.files
        offsets = np.sort(np.concatenate([opened.offsets(file) for file in some]))
        twice = offsets[1:][offsets[1:] == offsets[:-1]]
        return int(twice[0]) if len(twice) else None

    def _sortings(self, group: Sequence[DataFile], runs: list[str]) -> list[Sorting]:
        """The new files of a group; writes runs for partitions that need several files."""
        sizes, target_size = _sizes(group), self.transaction.options.target_size
        large = {number for number, size in sizes.items() if size > target_size}
        parts = [part for part in group if part.partition not in large]
        slices = [Slice(partition=one, size=sizes[one]) for one in sorted(sizes.keys() - large)]
        if large:
            of_large = [part for part in group if part.partition in large]
            cuts = {number: self._cuts(of_large, number, sizes[number]) for number in large}
            slices += [one for number in large for one in cuts[number]]
            made = self._made_runs(of_large, max(map(len, cuts.values())))
            runs += dict.fromkeys(part.path for part in made)
            parts += made
        slices.sort(key=lambda one: one.partition)
        directory = directory_like(group[0], self.transaction.directory)
        return [
            # Partitions that follow each other share a file.
            self._sorting(
                directory, some, [one for one in parts if one.partition in _numbers(some)]
            )
            for some in shared_out(slices, lambda one: one.size, target_size)
        ]

    def _sorting(
        self, directory: str, slices: Sequence[Slice], parts: Sequence[DataFile]
    ) -> Sorting:
        name = f"part-{slices[0].partition}-sorted-{secrets.token_hex(4)}.parquet"
        return Sorting(
            table=self.transaction.table.path,
            target=f"{directory}/{name}",
            column=self.column,
            slices=slices,
            parts=parts,
            style=self.transaction.style,
        )

    def _made_runs(self, parts: Sequence[DataFile], slice_count: int) -> list[DataFile]:
        """Sorts each file into a run whose row groups are about as large as its part of a slice."""
        directory = changes_of(self.transaction.directory)
        runs = [
            replace(
                self._sorting(directory, _whole(file), file),
                group_rows=math.ceil(max(part.row_count for part in file) / slice_count),
            )
            for file in whole_files(parts)
        ]
        return list(self.transaction.written(self._carry_out(runs, no_tasks_shown)))

    def _carry_out(self, sortings: Sequence[Sorting], on_tasks: OnTasks) -> list[str]:
        engine = self.transaction.options.engine
        paths = engine.run([sorting.write for sorting in sortings], on_tasks)
        wrong = engine.run([sorting.check for sorting in sortings], no_tasks_shown)
        if wrong:
            raise wrong_rows(wrong[0])
        return paths

    def _cuts(self, parts: Sequence[DataFile], partition: int, size: float) -> list[Slice]:
        """Divides a large partition into slices of about the target size, from a sample of its
        values.
        """
        some = [part for part in parts if part.partition == partition]
        row_count = sum(part.row_count for part in some)
        step = max(1, row_count // SAMPLED_ROWS)
        opened, target_size = self.transaction.table.files, self.transaction.options.target_size
        values: list[Any] = []
        for part in some:
            column = opened.rows(part, [self.column.value])[self.column.value]
            values += column.take(list(range(0, len(column), step))).drop_null().to_pylist()
        values.sort()
        count = math.ceil(size / target_size)
        places = [len(values) * one // count for one in range(1, count)]
        bounds = list(dict.fromkeys(values[place] for place in places if values))
        ends = zip([None, *bounds], [*bounds, None], strict=True)
        share = size / (len(bounds) + 1)
        return [Slice(partition=partition, size=share, low=low, high=up) for low, up in ends]


def unsorted_groups(
    store: TableStore,
    files: Sequence[DataFile],
    keys: Mapping[str, tuple[str, ...]],
    column: SortColumn,
) -> list[list[DataFile]]:
    """The groups of files (by `keys`) that are not sorted yet."""
    groups: dict[tuple[str, ...], list[DataFile]] = {}
    for part in files:
        groups.setdefault(keys[part.path], []).append(part)
    return [group for group in groups.values() if not _is_in_order(store, group, column)]


def _is_in_order(store: TableStore, group: Sequence[DataFile], column: SortColumn) -> bool:
    """Whether all files are sorted and their ranges of values do not overlap."""
    spans: dict[int, list[tuple[Any, Any]]] = {}
    for file in whole_files(group):
        with open_parquet(store, file[0].path) as opened:
            if sorted_column(opened) != column.value:
                return False
            for part in file:
                spans.setdefault(part.partition, []).append(_span(opened, part, column))
    for some in spans.values():
        if len(some) > 1 and None in some:
            return False
        ordered = sorted(some)
        if any(one[1] >= other[0] for one, other in pairwise(ordered)):
            return False
    return True


def _span(opened: Any, part: DataFile, column: SortColumn) -> Any:
    """The least and the greatest value of a part; `None` if unknown."""
    found = [
        range_of(opened.metadata.row_group(number), column.value)
        for number in range(opened.num_row_groups)
        if range_of(opened.metadata.row_group(number), "partition") == (part.partition,) * 2
    ]
    if None in found or not found:
        return None
    return min(one[0] for one in found if one), max(one[1] for one in found if one)


def _read(
    store: TableStore, part: DataFile, wanted: Slice, column: SortColumn
) -> "Iterator[pa.Table]":
    """The rows of a slice, from the row groups that may have some."""
    import pyarrow.compute as pc

    with open_parquet(store, part.path, part.kept) as opened:
        for number in range(opened.num_row_groups):
            group = opened.metadata.row_group(number)
            partitions = range_of(group, "partition")
            if partitions is not None and not partitions[0] <= part.partition <= partitions[1]:
                continue
            if not wanted.may_be_in(range_of(group, column.value)):
                continue
            rows = opened.read_row_group(number).replace_schema_metadata()
            if partitions is None or partitions[0] != partitions[1]:
                rows = rows.filter(pc.equal(rows["partition"], part.partition))
            yield rows.filter(wanted.mask(rows[column.value]))


def _joined(tables: "Sequence[pa.Table]", schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    if not tables:
        return schema.empty_table()
    return pa.concat_tables([one.replace_schema_metadata() for one in tables]).cast(schema)


def _whole(file: Sequence[DataFile]) -> list[Slice]:
    numbers = sorted({part.partition for part in file})
    return [Slice(partition=number, size=0) for number in numbers]


def _sizes(parts: Sequence[DataFile]) -> dict[int, float]:
    """The approximate bytes of each partition."""
    found: dict[int, float] = {}
    for file in whole_files(parts):
        row_count = sum(part.row_count for part in file)
        for part in file:
            share = part.size * part.row_count / max(row_count, 1)
            found[part.partition] = found.get(part.partition, 0) + share
    return found


def _numbers(slices: Sequence[Slice]) -> set[int]:
    return {one.partition for one in slices}


def _counts(parts: "Iterator[DataFile] | Sequence[DataFile]") -> dict[int, int]:
    found: dict[int, int] = {}
    for part in parts:
        found[part.partition] = found.get(part.partition, 0) + part.row_count
    return found
