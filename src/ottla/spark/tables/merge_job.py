"""The Spark job of a table's compaction: each group of files into one, a task for each."""

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.base.files import join
from ottla.spark.loading.parquet_job import OnTasks, run_tasks, written_files
from ottla.spark.loading.source import paths_batch
from ottla.spark.tables.data_files import read_columns
from ottla.spark.tables.manifest import DataFile
from ottla.spark.tables.merging import first_unlike, merge
from ottla.spark.tables.store import TableStore, open_store
from ottla.spark.task_errors import TaskError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

WORK_OPTION = "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """`groups` of files with one schema and place each; `directory` is relative to the table."""

    store: TableStore
    directory: str
    groups: Sequence[Sequence[DataFile]]
    compression: str

    def run(self, spark: "SparkSession", on_tasks: OnTasks) -> tuple[DataFile, ...]:
        """Writes the files, and tells them by their footers, in the order of the groups."""
        return written_files(self.store, run_tasks(spark, MergeSource, self._work([]), on_tasks))

    def check(self, spark: "SparkSession", files: Sequence[DataFile]) -> None:
        """Raises `TaskError` unless all rows, and no others, are in the new files."""
        wrong = [self.directory]
        if len(files) == len(self.groups):
            written = [file.path for file in files]
            wrong = run_tasks(spark, MergeSource, self._work(written), lambda *_: None)
        if wrong:
            raise TaskError(
                f"{wrong[0]}: the rows written are not those read; the table is as it was, run it "
                f"again"
            )

    def _work(self, written: Sequence[str]) -> dict[str, str]:
        """What tasks are told; with the files `written` they check these."""
        fields = {
            "table": self.store.address,
            "directory": self.directory,
            "compression": self.compression,
            "groups": [[_file_fields(file) for file in group] for group in self.groups],
            "written": list(written),
        }
        return {WORK_OPTION: json.dumps(fields)}


class MergeSource(DataSource):  # type: ignore[misc]
    """Registered by `MergeJob` for its session alone."""

    @classmethod
    def name(cls) -> str:
        return "ottla_merge"

    def schema(self) -> str:
        return "path string"

    def reader(self, schema: "StructType") -> "MergeReader":
        return MergeReader(self.options[WORK_OPTION])


class GroupPartition(InputPartition):  # type: ignore[misc]
    """The number of a group."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class MergeReader(DataSourceReader):  # type: ignore[misc]
    """Gives back the path of the file written, or of one that is wrong; made anew in every task."""

    def __init__(self, work: str) -> None:
        self._work = json.loads(work)

    def partitions(self) -> list[GroupPartition]:
        return [GroupPartition(number) for number in range(len(self._work["groups"]))]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Spark makes a plain partition of its own where there are none.
        if isinstance(partition, GroupPartition):
            store = open_store(self._work["table"])
            group = [DataFile(**one) for one in self._work["groups"][partition.number]]
            if not self._work["written"]:
                target = self._target(group)
                merge(store, group, target, self._work["compression"])
                yield paths_batch([target])
                return
            written = self._work["written"][partition.number]
            offset = first_unlike(store, group, written)
            yield paths_batch([] if offset is None else [f"{written}, offset {offset}"])

    def _target(self, group: Sequence[DataFile]) -> str:
        first = min(file.first_offset for file in group)
        name = f"part-{group[0].partition}-{first}-{secrets.token_hex(4)}.parquet"
        inner = inner_place(group[0])
        return join(self._work["directory"], *([inner] if inner else []), name)


def inner_place(file: DataFile) -> str:
    """Where a file lies below its commit's directory: `day=2026-01-31`, or nothing."""
    return "/".join(file.path.split("/")[2:-1])


def columns_of(store: TableStore, file: DataFile) -> str:
    """A text that is the same for files with the same columns; raises `CorruptionError`."""
    return str(read_columns(store, file))


def _file_fields(file: DataFile) -> dict[str, object]:
    fields = asdict(file)
    del fields["role"]  # A directory has files of one.
    return fields
