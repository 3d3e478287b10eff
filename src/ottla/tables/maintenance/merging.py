"""Merges each group of a table's files into one file with the same rows, in order.

One task merges a group; another compares the written rows with those read.
"""

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from ottla.base.values import dataclass
from ottla.tables.entries import DataFile, directory_like
from ottla.tables.files.data_files import BATCH_ROWS, DataFiles, interleaved, part_batches
from ottla.tables.files.parquet_files import ParquetOutput, ParquetStyle, open_parquet
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.writing.engine import OnTasks, no_tasks_shown
from ottla.tables.writing.transaction import Transaction, wrong_rows

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """A group of files: the task that merges it, and the task that checks the merged file."""

    table: str
    directory: str
    group: Sequence[DataFile]
    style: ParquetStyle

    def write(self) -> list[str]:
        """Merges the group; returns the path of the new file."""
        target = self._target()
        merge(open_store(self.table), self.group, target, self.style)
        return [target]

    def check(self, written: str) -> list[str]:
        """Compares the new file with the group; returns a description of the first difference, if
        any.
        """
        offset = first_unlike(open_store(self.table), self.group, written)
        return [] if offset is None else [f"{written}, offset {offset}"]

    def _target(self) -> str:
        first = min(self.group, key=lambda part: (part.partition, part.first_offset))
        name = f"part-{first.partition}-{first.first_offset}-{secrets.token_hex(4)}.parquet"
        return f"{directory_like(first, self.directory)}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """Merges `groups` of files that have the same schema and directory."""

    transaction: Transaction
    groups: Sequence[Sequence[DataFile]]

    def run(self, on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files; returns their footers, in order of the groups."""
        work = [merging.write for merging in self._mergings()]
        return self.transaction.written(self.transaction.options.engine.run(work, on_tasks))

    def check(self, files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless the new files have exactly the rows of the groups."""
        wrong = [self.transaction.directory]
        paths = list(dict.fromkeys(file.path for file in files))
        new, old = (
            sum(part.row_count for part in parts)
            for parts in (files, [part for group in self.groups for part in group])
        )
        if len(paths) == len(self.groups) and new == old:
            pairs = zip(self._mergings(), paths, strict=True)
            work = [partial(merging.check, path) for merging, path in pairs]
            wrong = self.transaction.options.engine.run(work, no_tasks_shown)
        if wrong:
            raise wrong_rows(wrong[0])

    def _mergings(self) -> list[Merging]:
        return [
            Merging(
                table=self.transaction.table.path,
                directory=self.transaction.directory,
                group=group,
                style=self.transaction.style,
            )
            for group in self.groups
        ]


def merge(store: TableStore, parts: Sequence[DataFile], target: str, style: ParquetStyle) -> None:
    """Writes the rows of files with the same columns; `target` is relative to the table."""
    with ParquetOutput(store, target, style) as output:
        for partition, batch in _rows(store, parts):
            output.write(batch, partition)


def first_unlike(store: TableStore, parts: Sequence[DataFile], target: str) -> int | None:
    """The offset at which a file's rows differ from the rows of the files that it replaces.

    It is the first offset of the batch with the difference; `None` if all rows are equal.
    """
    with open_parquet(store, target) as opened:
        wanted = (batch for _, batch in _rows(store, parts))
        return first_unlike_rows(wanted, opened.iter_batches(BATCH_ROWS))


def first_unlike_rows(
    wanted: "Iterator[pa.RecordBatch]", found: "Iterator[pa.RecordBatch]"
) -> int | None:
    """The offset at which rows differ, as `first_unlike` returns it."""
    for ours, theirs in zip_longest(_even(wanted), _even(found)):
        if ours is None or theirs is None or not theirs.equals(ours):
            at = ours if ours is not None else theirs
            return int(at.column("offset")[0].as_py())
    return None


def _rows(store: TableStore, parts: Sequence[DataFile]) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """The rows in order of partition and offset, whatever their order in the files."""
    import pyarrow as pa

    schema = DataFiles(store).columns(parts[0])
    for partition in sorted({part.partition for part in parts}):
        for group in interleaved(part for part in parts if part.partition == partition):
            for batch in _group_rows(store, group):
                yield partition, pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _group_rows(store: TableStore, group: Sequence[DataFile]) -> "Iterator[pa.RecordBatch]":
    import numpy as np
    import pyarrow as pa

    if len(group) == 1 and bool(np.all(np.diff(DataFiles(store).offsets(group[0])) > 0)):
        with open_parquet(store, group[0].path, group[0].kept) as opened:
            yield from part_batches(opened, group[0])
        return
    tables = [DataFiles(store).rows(part) for part in group]
    yield from pa.concat_tables(tables).sort_by("offset").to_batches(BATCH_ROWS)


def _even(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The same rows in batches of equal size, so that two streams can be compared."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        plain = batch.replace_schema_metadata()
        while count + plain.num_rows >= BATCH_ROWS:
            taken = plain.slice(0, BATCH_ROWS - count)
            yield pa.concat_batches([*held, taken])
            plain = plain.slice(taken.num_rows)
            held, count = [], 0
        if plain.num_rows:
            held.append(plain)
            count += plain.num_rows
    if held:
        yield pa.concat_batches(held)
