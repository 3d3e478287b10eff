"""Copies the rows that a rerun leaves as they are out of the files that it replaces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange
from ottla.tables.entries import DataFile, directory_like, whole_files
from ottla.tables.files.data_files import part_batches
from ottla.tables.files.parquet_files import ParquetOutput, ParquetStyle, open_parquet
from ottla.tables.layout import is_placed
from ottla.tables.stores.store import TableStore
from ottla.tables.writing.task_files import TaskFiles
from ottla.tables.writing.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = OffsetRange(from_offset=0, until_offset=0)


def touched_files(
    files: Sequence[DataFile], ranges: Mapping[int, OffsetRange]
) -> tuple[DataFile, ...]:
    """The files that may have rows of the ranges (by partition), with all of their partitions."""
    paths = {
        file.path
        for file in files
        if (read := ranges.get(file.partition)) is not None
        and file.first_offset < read.until_offset
        and read.from_offset <= file.last_offset
    }
    return tuple(file for file in files if file.path in paths)


def copy_others(
    transaction: Transaction, replaced: Iterable[DataFile], ranges: Mapping[int, OffsetRange]
) -> tuple[DataFile, ...]:
    """Copies the rows of replaced files that are outside the ranges (by partition).

    Each copy is in the same place of the new commit's directory (`data/load-…/day=…/`).
    """
    copies: list[DataFile] = []
    for number, parts in enumerate(whole_files(replaced)):
        if all(_is_within(part, ranges.get(part.partition, NOTHING)) for part in parts):
            continue
        if not is_placed(parts[0], transaction.layout.partitioning):
            copies += transaction.written(_placed_anew(transaction, parts, ranges, number))
            continue
        directory = directory_like(parts[0], transaction.directory)
        target = f"{directory}/part-copied-{number:05d}.parquet"
        if _copy(transaction.table.store, parts, ranges, target, transaction.style):
            copies += transaction.written([target])
    return tuple(copies)


def _copy(
    store: TableStore,
    parts: Sequence[DataFile],
    ranges: Mapping[int, OffsetRange],
    target: str,
    style: ParquetStyle,
) -> bool:
    """Copies the rows of a file except those of the ranges; returns whether any row is left.

    `target` is relative to the table. The columns are unchanged.
    """
    with ParquetOutput(store, target, style) as output:
        for partition, rows in _others(store, parts, ranges):
            output.write(rows, partition)
        return output.close()


def _placed_anew(
    transaction: Transaction,
    parts: Sequence[DataFile],
    ranges: Mapping[int, OffsetRange],
    number: int,
) -> list[str]:
    """Copies rows of a file that is partitioned by an earlier layout; returns the files' paths."""
    store = transaction.table.store
    with TaskFiles(
        store,
        transaction.directory,
        f"copied-{number:05d}",
        style=transaction.style,
        partitioning=transaction.layout.partitioning,
    ) as output:
        for partition, rows in _others(store, parts, ranges):
            output.write(rows, partition)
    return output.paths


def _others(
    store: TableStore, parts: Sequence[DataFile], ranges: Mapping[int, OffsetRange]
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    import pyarrow.compute as pc

    with open_parquet(store, parts[0].path) as opened:
        for part in parts:
            read = ranges.get(part.partition, NOTHING)
            for batch in part_batches(opened, part):
                offsets = batch.column("offset")
                is_outside = pc.or_(
                    pc.less(offsets, read.from_offset), pc.greater_equal(offsets, read.until_offset)
                )
                yield part.partition, batch.filter(is_outside)


def _is_within(part: DataFile, wanted: OffsetRange) -> bool:
    return wanted.from_offset <= part.first_offset and part.last_offset < wanted.until_offset
