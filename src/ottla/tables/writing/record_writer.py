"""Writes records of a log as rows of a table: what every task of a load does.

A `RecordWriter` has all that a task needs, and can be pickled; it is used in any process, at any
machine. Records never pass through Java. Records that cannot be decoded are quarantined at once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.record.rows import RowMaker, decoded_columns
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.columns.rows import quarantine_columns
from ottla.tables.entries import DataFile, changes_of, quarantine_of
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.forgotten import ForgottenPlaces
from ottla.tables.files.parquet_files import ParquetStyle
from ottla.tables.stores.store import open_store
from ottla.tables.values.record_decoder import RecordDecoding
from ottla.tables.writing.change_rows import CHANGE_COLUMNS, ChangeMaker
from ottla.tables.writing.record_rows import RowBuilder, columns_of_records
from ottla.tables.writing.task_files import TaskFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class OnError(Enum):
    """The handling of a record whose value cannot be decoded."""

    FAIL = "fail"
    """The load stops, and the table is unchanged."""
    QUARANTINE = "quarantine"
    """The record is kept beside the table, including its bytes."""
    SKIP = "skip"
    """Only offset and reason are kept, so that every offset is accounted for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWriter:
    """`table` is a directory or an address; `directory` below it is for the commit's files."""

    table: str
    directory: str
    commit_id: int
    topic: str
    partition_count: int = 1
    """The number of partitions of the topic."""
    decoding: RecordDecoding = field(default_factory=RecordDecoding)
    login: RegistryLogin | None = field(default=None, repr=False)
    """The login for the schema registry, if the decoding uses one."""
    on_error: OnError = OnError.FAIL
    style: ParquetStyle = field(default_factory=ParquetStyle)
    partitioning: Partitioning | None = None
    changes: ChangeMaker | None = None
    """Makes changes of rows, which are then merged with the table's rows; `None`: rows are written.
    """
    forgotten: tuple[DataFile, ...] = ()
    """Files with the places of records that are not to be rows again."""

    @contextmanager
    def open(self, name: str) -> "Iterator[RecordFiles]":
        """New files, whose names begin with `name`; complete when the block ends without error."""
        store = open_store(self.table)
        is_merged = self.changes is not None
        # Changes get directories by time only when they are merged.
        rows = TaskFiles(
            store,
            changes_of(self.directory) if is_merged else self.directory,
            name,
            style=replace(self.style, is_flat=False) if is_merged else self.style,
            partitioning=None if is_merged else self.partitioning,
        )
        quarantine = TaskFiles(
            store,
            quarantine_of(self.directory),
            name,
            style=replace(self.style, field_ids={}, is_flat=False),
        )
        with rows, quarantine:
            yield RecordFiles(
                self, rows, quarantine, ForgottenPlaces(DataFiles(store), self.forgotten)
            )


class RecordFiles:
    """The files that one task fills."""

    def __init__(
        self,
        writer: RecordWriter,
        rows: TaskFiles,
        quarantine: TaskFiles,
        forgotten: ForgottenPlaces,
    ) -> None:
        self._forgotten = forgotten
        self._writer = writer
        self._rows = rows
        self._quarantine = quarantine
        self._builder = RowBuilder(writer.topic, writer.decoding, writer.login)
        self._schema = self._builder.columns
        if writer.changes is not None:
            self._schema = writer.changes.columns(self._schema)
        with_bytes = writer.on_error is OnError.QUARANTINE
        self._quarantine_schema = quarantine_columns(with_bytes=with_bytes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of records that `write` needs, as in `record.columns`."""
        return decoded_columns(columns_of_records(self._schema, CHANGE_COLUMNS).names)

    @property
    def paths(self) -> list[str]:
        """The completed files, relative to the table."""
        return self._rows.paths + self._quarantine.paths

    def write(self, records: "pa.RecordBatch", partition: int) -> None:
        """Writes records of one partition.

        Raises `UserError` for one that cannot be decoded, with `OnError.FAIL`.
        """
        import numpy as np
        import pyarrow as pa

        records, gone = self._remembered(records, partition)
        rows, faults = self._made(records, partition, gone)
        if faults:
            apart = {index: one for index, one in faults.items() if gone is None or not gone[index]}
            if apart:
                self._set_apart(records, apart, partition)
            is_sound = np.ones(rows.num_rows, dtype=bool)
            is_sound[list(faults)] = False
            rows = rows.filter(pa.array(is_sound))
        self._rows.write(rows, partition)

    def _remembered(
        self, records: "pa.RecordBatch", partition: int
    ) -> "tuple[pa.RecordBatch, np.ndarray[Any, Any] | None]":
        """The records without those that were deleted on purpose.

        Of a table with the latest rows those that had a row stay, with a mask of them: they delete
        it, so that no earlier record of the key becomes its row again.
        """
        import numpy as np
        import pyarrow as pa

        if not self._forgotten:
            return records, None
        has_latest = self._writer.changes is not None
        places = self._forgotten
        gone = places.of_quarantine(partition) if has_latest else places.offsets(partition)
        kept = records.filter(pa.array(~np.isin(records.column("offset").to_numpy(), gone)))
        if not has_latest:
            return kept, None
        return kept, np.isin(kept.column("offset").to_numpy(), places.of_rows(partition))

    def _made(
        self, records: "pa.RecordBatch", partition: int, gone: "np.ndarray[Any, Any] | None"
    ) -> "tuple[pa.RecordBatch, Mapping[int, str]]":
        """The rows of all records, and the faults of those that are none, by index."""
        rows, found = self._builder.rows(records, partition)
        changes = self._writer.changes
        if changes is None:
            return self._with_added(self._schema, rows, {}), found.faults
        made = changes.changes(rows, found.truncations, self._writer.partition_count, gone)
        whole = self._with_added(self._schema, rows, made.columns)
        # What is wrong with a value comes first: its columns may be missing for that. A record that
        # was deleted on purpose needs no value, but a key.
        faults = {**made.faults, **found.faults}
        if gone is not None:
            faults = {one: faults[one] for one in faults if not gone[one] or one in made.faults}
        return whole, faults

    def _set_apart(
        self, records: "pa.RecordBatch", faults: Mapping[int, str], partition: int
    ) -> None:
        """Handles the records that cannot be decoded, as `on_error` demands."""
        import pyarrow as pa

        indices = sorted(faults)
        if self._writer.on_error is OnError.FAIL:
            offset = records.column("offset")[indices[0]].as_py()
            raise UserError(
                f"{self._writer.topic}-{partition}, offset {offset}: the record cannot be "
                f"made a row: {faults[indices[0]]} (--on-error quarantine sets such records aside)"
            )
        reasons = pa.array([faults[index] for index in indices], pa.string())
        wrong = records.take(pa.array(indices, pa.int64()))
        schema = self._quarantine_schema
        maker = RowMaker(self._writer.topic, partition, columns_of_records(schema, ("reason",)))
        rows = self._with_added(schema, maker.rows(wrong), {"reason": reasons})
        self._quarantine.write(rows, partition)

    def _with_added(
        self, schema: Any, rows: "pa.RecordBatch", added: Mapping[str, Any]
    ) -> "pa.RecordBatch":
        """The rows with the columns that are not part of a record, in the order of `schema`."""
        import pyarrow as pa

        ids = pa.repeat(pa.scalar(self._writer.commit_id, pa.int64()), rows.num_rows)
        given = {"commit_id": ids, **added}
        columns = [
            given[field.name] if field.name in given else rows.column(field.name)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
