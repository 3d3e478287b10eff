"""Groups of a table's files into one file each, a task for each: the same rows in order of offset.

Other tasks then compare the rows written with those read.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from ottla.base.errors import TaskError
from ottla.base.files import join
from ottla.loading.tasks import OnTasks, TaskRunner
from ottla.loading.writing import written_files
from ottla.tables.data_files import interleaved, read_columns, read_offsets
from ottla.tables.manifest import DataFile, inner_place
from ottla.tables.parquet_files import ParquetOutput, open_parquet
from ottla.tables.store import TableStore, open_store

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """One group of files, which may be merged, or compared with the file they were merged into."""

    table: str
    directory: str
    group: Sequence[DataFile]
    compression: str

    def write(self) -> list[str]:
        """Returns the path of the new file."""
        target = self._target()
        merge(open_store(self.table), self.group, target, self.compression)
        return [target]

    def check(self, written: str) -> list[str]:
        """Returns what is wrong, if anything is."""
        offset = first_unlike(open_store(self.table), self.group, written)
        return [] if offset is None else [f"{written}, offset {offset}"]

    def _target(self) -> str:
        first = min(file.first_offset for file in self.group)
        name = f"part-{self.group[0].partition}-{first}-{secrets.token_hex(4)}.parquet"
        inner = inner_place(self.group[0])
        return join(self.directory, *([inner] if inner else []), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """`groups` of files with one schema and place each; `directory` is relative to the table."""

    store: TableStore
    directory: str
    groups: Sequence[Sequence[DataFile]]
    compression: str

    def run(self, tasks: TaskRunner, on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files; returns them by their footers, in the order of the groups."""
        work = [one.write for one in self._mergings()]
        return written_files(self.store, tasks.run(work, on_tasks))

    def check(self, tasks: TaskRunner, files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless all rows, and no others, are in the new files."""
        wrong = [self.directory]
        if len(files) == len(self.groups):
            pairs = zip(self._mergings(), files, strict=True)
            work = [partial(one.check, file.path) for one, file in pairs]
            wrong = tasks.run(work, lambda *_: None)
        if wrong:
            raise TaskError(
                f"{wrong[0]}: the rows written are not those read; the table is as it was, run it "
                f"again"
            )

    def _mergings(self) -> list[Merging]:
        return [
            Merging(
                table=self.store.address,
                directory=self.directory,
                group=group,
                compression=self.compression,
            )
            for group in self.groups
        ]


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
