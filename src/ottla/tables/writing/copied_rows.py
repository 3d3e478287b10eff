"""Copies the rows that a commit keeps out of the files that it replaces.

A rerun keeps the rows outside of its ranges, a deletion on purpose those that it does not delete.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import DataFile, directory_like, whole_files
from ottla.tables.files.data_files import part_batches
from ottla.tables.files.parquet_files import (
    ParquetOutput,
    ParquetStyle,
    open_parquet,
    sorted_column,
)
from ottla.tables.files.read_again import OtherRows, ReadAgain
from ottla.tables.layout import is_placed
from ottla.tables.stores.store import TableStore
from ottla.tables.writing.task_files import TaskFiles
from ottla.tables.writing.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

Keeps = Callable[[int, "pa.Array"], Any]
"""Of a partition and offsets, a mask of the rows to be kept."""


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
    transaction: Transaction, replaced: Iterable[DataFile], again: ReadAgain
) -> tuple[DataFile, ...]:
    """Copies the rows of replaced files that a rerun leaves."""
    copying = Copying.of(transaction)
    others = OtherRows(transaction.table.files, again)
    copies: list[DataFile] = []

    def keeps(partition: int, offsets: "pa.Array") -> Any:
        import pyarrow as pa

        return pa.array(others.mask(partition, offsets.to_numpy(zero_copy_only=False)))

    for number, parts in enumerate(whole_files(replaced)):
        if not all(map(again.has_all, parts)):
            paths = copying.copy(transaction.table.store, parts, keeps, f"copied-{number:05d}")
            copies += transaction.written(paths)
    return tuple(copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """How the copies of a commit are written; `directory` is relative to the table."""

    directory: str
    style: ParquetStyle
    partitioning: Partitioning | None

    @classmethod
    def of(cls, transaction: Transaction) -> "Copying":
        return cls(
            directory=transaction.directory,
            style=transaction.style,
            partitioning=transaction.layout.partitioning,
        )

    def copy(
        self, store: TableStore, parts: Sequence[DataFile], keeps: Keeps, name: str
    ) -> list[str]:
        """Copies rows of a file in their order, with its columns; returns the new files' paths.

        A copy is in the same place of the new commit's directory (`data/load-…/day=…/`).
        """
        if not is_placed(parts[0], self.partitioning):
            return self._placed_anew(store, parts, keeps, name)
        target = f"{directory_like(parts[0], self.directory)}/part-{name}.parquet"
        with open_parquet(store, parts[0].path) as opened:
            order = sorted_column(opened)
        with ParquetOutput(store, target, self.style, sorted_by=order) as output:
            for number, rows in kept_rows(store, parts, keeps):
                output.write(rows, number)
            return [target] if output.close() else []

    def _placed_anew(
        self, store: TableStore, parts: Sequence[DataFile], keeps: Keeps, name: str
    ) -> list[str]:
        """Copies rows of a file that is partitioned by an earlier layout."""
        with TaskFiles(
            store, self.directory, name, style=self.style, partitioning=self.partitioning
        ) as output:
            for number, rows in kept_rows(store, parts, keeps):
                output.write(rows, number)
        return output.paths


def kept_rows(
    store: TableStore, parts: Sequence[DataFile], keeps: Keeps
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """The rows of a file that are kept, by partition, in their order."""
    with open_parquet(store, parts[0].path, parts[0].kept) as opened:
        for part in parts:
            for batch in part_batches(opened, part):
                yield part.partition, batch.filter(keeps(part.partition, batch.column("offset")))
