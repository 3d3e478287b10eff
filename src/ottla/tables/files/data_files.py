"""Data files, read: their columns, rows and offsets.

Offsets are read from the column where the footers are not sufficient.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import CorruptionError
from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.columns.statistics import Path
from ottla.tables.entries import DataFile
from ottla.tables.files.field_ids import with_field_ids
from ottla.tables.files.parquet_files import open_parquet, partition_bounds, read_footer
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ottla.tables.files.plain_parquet import PlainParquetFile

BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The data files of a table. A `DataFile` is the part of one with rows of one partition."""

    store: TableStore

    def described(self, path: str, kept: bytes | None = None) -> list[DataFile]:
        """The rows of a file by partition, from its footer; raises as `read_footer` does."""
        return read_footer(self.store, path, kept=kept)

    def columns(self, file: DataFile) -> "pa.Schema":
        """The columns of a file; raises `CorruptionError` if it is missing or not Parquet."""
        import pyarrow as pa

        try:
            with open_parquet(self.store, file.path) as opened:
                return with_field_ids(opened.schema_arrow, {})
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(f"{self.store.address}/{file.path}", 0, str(error)) from error

    def rows(self, file: DataFile, columns: Sequence[str] | None = None) -> "pa.Table":
        """Columns of a partition's rows in a file, in the file's order; `None`: all columns."""
        import pyarrow as pa

        with open_parquet(self.store, file.path, file.kept) as opened:
            schema = with_field_ids(opened.schema_arrow, {})
            batches = part_batches(opened, file, columns)
            wanted = schema if columns is None else pa.schema(map(schema.field, columns))
            return pa.Table.from_batches(batches, wanted)

    def offsets(self, file: DataFile) -> "np.ndarray[Any, Any]":
        """The offsets of a partition's rows, in the file's order."""
        return self.rows(file, ["offset"])["offset"].to_numpy()  # type: ignore[no-any-return]

    def first_repeated(self, files: Iterable[DataFile]) -> DataFile | None:
        """The first file of a partition with an offset that it or an earlier file also has.

        Only files with overlapping offset ranges are read.
        """
        import numpy as np

        for group in interleaved(files):
            if len(group) == 1:
                (file,) = group
                if file.row_count > file.last_offset - file.first_offset + 1:
                    return file
                continue
            seen = np.empty(0, np.int64)
            for file in group:
                merged = np.unique(np.concatenate([seen, self.offsets(file)]))
                if len(merged) < len(seen) + file.row_count:
                    return file
                seen = merged
        return None

    def counts_in(
        self, files: Iterable[DataFile], ranges: Sequence[OffsetRange]
    ) -> tuple[list[int], DataFile | None]:
        """The row counts of ranges of one partition, and the first file with rows outside of them.

        Ranges are in order and do not overlap. Only files that span several ranges are read.
        """
        import numpy as np

        starts = np.array([one.from_offset for one in ranges], np.int64)
        ends = np.array([one.until_offset for one in ranges], np.int64)
        counts = np.zeros(len(ranges), np.int64)
        stray = None
        for file in files:
            bounds = [file.first_offset, file.last_offset]
            first, last = np.searchsorted(starts, bounds, "right") - 1
            if first == last >= 0 and file.last_offset < ends[last]:
                counts[last] += file.row_count
                continue
            offsets = np.sort(self.offsets(file))
            found = np.searchsorted(offsets, ends) - np.searchsorted(offsets, starts)
            counts += found
            if found.sum() < file.row_count and stray is None:
                stray = file
        return counts.tolist(), stray


def leaf_batches(
    opened: "PlainParquetFile", file: DataFile, paths: Sequence[Path]
) -> "Iterator[pa.RecordBatch]":
    """Leaf columns of a partition's rows, by their paths in rows, each as a column of its own; the
    partition is among them.
    """
    import pyarrow.compute as pc

    paths = list(dict.fromkeys((*paths, ("partition",))))
    for number, (first, last) in enumerate(partition_bounds(opened.metadata)):
        if not first <= file.partition <= last:
            continue
        for batch in opened.iter_leaves(number, paths, BATCH_ROWS):
            is_mixed = first != last
            yield (
                batch.filter(pc.equal(batch.column("partition"), file.partition))
                if is_mixed
                else batch
            )


def part_batches(
    opened: "pq.ParquetFile", file: DataFile, columns: Sequence[str] | None = None
) -> "Iterator[pa.RecordBatch]":
    """Like `DataFiles.rows`, from a file that is already open, batch by batch."""
    import pyarrow.compute as pc

    names = list(opened.schema_arrow.names if columns is None else columns)
    for number, (first, last) in enumerate(partition_bounds(opened.metadata)):
        if not first <= file.partition <= last:
            continue
        is_mixed = first != last
        read = [*names, *({"partition"}.difference(names) if is_mixed else ())]
        for batch in opened.iter_batches(BATCH_ROWS, row_groups=[number], columns=read):
            plain = batch.replace_schema_metadata()
            if is_mixed:
                plain = plain.filter(pc.equal(plain.column("partition"), file.partition))
            yield plain.select(names)


def interleaved(files: Iterable[DataFile]) -> list[Sequence[DataFile]]:
    """Groups files of one partition so that the offset ranges of groups do not overlap; each group
    is in order.
    """
    groups: list[list[DataFile]] = []
    end = -1
    for file in sorted(files, key=lambda file: (file.first_offset, file.last_offset)):
        if file.first_offset > end:
            groups.append([])
        groups[-1].append(file)
        end = max(end, file.last_offset)
    return list(groups)
