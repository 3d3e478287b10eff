"""Several files of a table into one: the same rows in order of offset, then held against them."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from ottla.tables.data_files import interleaved, read_columns, read_offsets
from ottla.tables.manifest import DataFile
from ottla.tables.parquet_files import ParquetOutput, open_parquet
from ottla.tables.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384


def merge(store: TableStore, files: Sequence[DataFile], target: str, compression: str) -> None:
    """Writes the rows of files with the same columns; `target` is relative to the table."""
    with ParquetOutput(store, target, compression) as output:
        for batch in _rows(store, files):
            output.write(batch)


def first_unlike(store: TableStore, files: Sequence[DataFile], target: str) -> int | None:
    """The offset from which a file's rows are not those of the files that it was made of.

    That of the batch in which it is; `None` when all rows are the same.
    """
    with open_parquet(store, target) as opened:
        pairs = zip_longest(_even(_rows(store, files)), _even(opened.iter_batches(BATCH_ROWS)))
        for wanted, found in pairs:
            if wanted is None or found is None or not found.equals(wanted):
                at = wanted if wanted is not None else found
                return int(at.column("offset")[0].as_py())
    return None


def _rows(store: TableStore, files: Sequence[DataFile]) -> "Iterator[pa.RecordBatch]":
    """In order of offset, whatever order they lie in."""
    import pyarrow as pa

    schema = read_columns(store, files[0])
    for group in interleaved(files):
        for batch in _group_rows(store, group):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _group_rows(store: TableStore, group: Sequence[DataFile]) -> "Iterator[pa.RecordBatch]":
    import numpy as np
    import pyarrow as pa

    if len(group) == 1 and bool(np.all(np.diff(read_offsets(store, group[0])) > 0)):
        with open_parquet(store, group[0].path) as opened:
            yield from opened.iter_batches(BATCH_ROWS)
        return
    tables = []
    for file in group:
        with open_parquet(store, file.path) as opened:
            tables.append(opened.read().replace_schema_metadata())
    yield from pa.concat_tables(tables).sort_by("offset").to_batches(BATCH_ROWS)


def _even(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The same rows in batches of one size, so that two streams of them can be held together."""
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
