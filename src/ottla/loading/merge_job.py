"""The Spark job of a table's compaction: each group of files into one, a task for each."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import TaskError
from ottla.base.files import join
from ottla.loading.merging import first_unlike, merge
from ottla.loading.parquet_job import OnTasks, run_tasks, written_files
from ottla.tables.data_files import read_columns
from ottla.tables.manifest import DataFile
from ottla.tables.store import TableStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """One group of files, which may be merged, or held against the file they were merged into."""

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

    def run(self, spark: "SparkSession", on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files, and tells them by their footers, in the order of the groups."""
        work = [one.write for one in self._mergings()]
        return written_files(self.store, run_tasks(spark, work, on_tasks))

    def check(self, spark: "SparkSession", files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless all rows, and no others, are in the new files."""
        wrong = [self.directory]
        if len(files) == len(self.groups):
            pairs = zip(self._mergings(), files, strict=True)
            work = [partial(one.check, file.path) for one, file in pairs]
            wrong = run_tasks(spark, work, lambda *_: None)
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


def inner_place(file: DataFile) -> str:
    """Where a file lies below its commit's directory: `day=2026-01-31`, or nothing."""
    return "/".join(file.path.split("/")[2:-1])


def columns_of(store: TableStore, file: DataFile) -> str:
    """A text that is the same for files with the same columns; raises `CorruptionError`."""
    return str(read_columns(store, file))
