"""Copies the rows that a commit keeps out of the files that it replaces.

A rerun keeps the rows outside of its ranges, a deletion on purpose those that it does not delete.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import DataFile, by_partition, directory_like, whole_files
from ottla.tables.files.data_files import DataFiles, part_batches
from ottla.tables.files.parquet_files import (
    ParquetOutput,
    ParquetStyle,
    open_parquet,
    sorted_column,
)
from ottla.tables.layout import is_placed
from ottla.tables.stores.store import TableStore
from ottla.tables.writing.task_files import TaskFiles
from ottla.tables.writing.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = OffsetRange(from_offset=0, until_offset=0)

CACHED_FILES = 16
"""The written files whose offsets are kept in memory, as neighbouring rows need the same ones."""

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
    transaction: Transaction,
    replaced: Iterable[DataFile],
    ranges: Mapping[int, OffsetRange],
    written: "WrittenOffsets | None" = None,
) -> tuple[DataFile, ...]:
    """Copies the rows of replaced files that are outside the ranges (by partition), and those
    inside that are not among the written ones, if these are given.
    """
    copying = Copying.of(transaction)
    copies: list[DataFile] = []
    for number, parts in enumerate(whole_files(replaced)):
        if not all(
            _is_within(part, ranges.get(part.partition, NOTHING))
            and (written is None or written.has_all(part.partition))
            for part in parts
        ):
            keeps = partial(_is_kept, ranges, written)
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


class WrittenOffsets:
    """The offsets of the files that a rerun has written for its ranges (by partition)."""

    def __init__(
        self, files: DataFiles, written: Sequence[DataFile], ranges: Mapping[int, OffsetRange]
    ) -> None:
        self._parts = by_partition(written)
        self._ranges = ranges
        self._offsets = lru_cache(CACHED_FILES)(
            lambda partition, index: files.offsets(self._parts[partition][index])
        )

    def has_all(self, partition: int) -> bool:
        """Whether there is one for each offset of the range."""
        count = sum(part.row_count for part in self._parts.get(partition, ()))
        wanted = self._ranges.get(partition, NOTHING)
        return count == wanted.until_offset - wanted.from_offset

    def missing(self, partition: int, offsets: "pa.Array") -> Any:
        """A mask of the offsets that are not among them."""
        import numpy as np
        import pyarrow as pa

        asked = offsets.to_numpy()
        found = np.zeros(len(asked), dtype=bool)
        for index, part in enumerate(self._parts.get(partition, ()) if len(asked) else ()):
            if part.first_offset <= asked.max() and asked.min() <= part.last_offset:
                found |= np.isin(asked, self._offsets(partition, index))
        return pa.array(~found)


def _is_kept(
    ranges: Mapping[int, OffsetRange],
    written: WrittenOffsets | None,
    partition: int,
    offsets: "pa.Array",
) -> Any:
    import pyarrow.compute as pc

    read = ranges.get(partition, NOTHING)
    is_outside = pc.or_(
        pc.less(offsets, read.from_offset), pc.greater_equal(offsets, read.until_offset)
    )
    return (
        is_outside if written is None else pc.or_(is_outside, written.missing(partition, offsets))
    )


def _is_within(part: DataFile, wanted: OffsetRange) -> bool:
    return wanted.from_offset <= part.first_offset and part.last_offset < wanted.until_offset
