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
from ottla.tables.columns.rows import change_columns, quarantine_columns, row_columns
from ottla.tables.entries import DataFile, changes_of, quarantine_of
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.forgotten import ForgottenPlaces
from ottla.tables.files.parquet_files import ParquetStyle
from ottla.tables.stores.store import open_store
from ottla.tables.values.record_decoder import HEADER, RecordDecoder, RecordDecoding
from ottla.tables.writing.task_files import TaskFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ADDED = ("commit_id", "reason", "is_deleted", HEADER)
"""Columns that are not part of a record."""


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
    is_latest: bool = False
    """Whether changes are written, which are then merged with the table's rows."""
    forgotten: tuple[DataFile, ...] = ()
    """Files with the places of records that are not to be rows again."""

    @contextmanager
    def open(self, name: str) -> "Iterator[RecordFiles]":
        """New files, whose names begin with `name`; complete when the block ends without error."""
        store = open_store(self.table)
        # Changes get directories by time only when they are merged.
        rows = TaskFiles(
            store,
            changes_of(self.directory) if self.is_latest else self.directory,
            name,
            style=replace(self.style, is_flat=False) if self.is_latest else self.style,
            partitioning=None if self.is_latest else self.partitioning,
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
        self._decoder = RecordDecoder(writer.decoding, writer.login)
        columns = change_columns if writer.is_latest else row_columns
        self._schema = columns(self._decoder.types)
        with_bytes = writer.on_error is OnError.QUARANTINE
        self._quarantine_schema = quarantine_columns(with_bytes=with_bytes)
        self._makers: dict[int, RowMaker] = {}
        """By partition."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of records that `write` needs, as in `record.columns`."""
        return decoded_columns(_record_columns(self._schema).names)

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
        import pyarrow.compute as pc

        records, gone = self._remembered(records, partition)
        rows, faults = self._decoded(records)
        faults = {index: one for index, one in faults.items() if gone is None or not gone[index]}
        if faults:
            self._set_apart(records, faults, partition)
            is_sound = np.ones(rows.num_rows, dtype=bool)
            is_sound[list(faults)] = False
            rows = rows.filter(pa.array(is_sound))
            gone = None if gone is None else gone[is_sound]
        added = {}
        if HEADER in rows.schema.names:
            added[HEADER] = rows.column(HEADER)
        if self._writer.is_latest:
            is_deleted = rows.column("value").is_null()
            added["is_deleted"] = is_deleted if gone is None else pc.or_(is_deleted, pa.array(gone))
        made = self._maker(partition).rows(rows)
        self._rows.write(self._with_added(self._schema, made, added), partition)

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
        has_latest = self._writer.is_latest
        places = self._forgotten
        gone = places.of_quarantine(partition) if has_latest else places.offsets(partition)
        kept = records.filter(pa.array(~np.isin(records.column("offset").to_numpy(), gone)))
        if not has_latest:
            return kept, None
        return kept, np.isin(kept.column("offset").to_numpy(), places.of_rows(partition))

    def _decoded(self, records: "pa.RecordBatch") -> "tuple[pa.RecordBatch, Mapping[int, str]]":
        """The records with decoded values, and the faults of those that are not rows, by index."""
        found = self._decoder.decode(records)
        rows, faults = records, found.faults
        for name, column in found.columns.items():
            index = rows.schema.get_field_index(name)
            if index < 0:
                rows = rows.append_column(name, column)
            else:
                rows = rows.set_column(index, name, column)
        if self._writer.is_latest:
            faults = {**self._unkeyed(records, found.truncations), **faults}
        return rows, faults

    def _unkeyed(self, records: "pa.RecordBatch", truncations: frozenset[int]) -> Mapping[int, str]:
        """The faults of changes without a usable key, by index."""
        import numpy as np

        has_no_key = records.column("key").is_null()
        return {
            index: fault
            for index in np.flatnonzero(has_no_key.to_numpy(False)).tolist()
            if (fault := self._key_fault(index in truncations)) is not None
        }

    def _key_fault(self, is_truncation: bool) -> str | None:
        if not is_truncation:
            return "it has no key, and rows are updated by key"
        others = self._writer.partition_count - 1
        if others:
            return (
                f"it reports a truncation of the source; changes in the other {others} partitions "
                f"may precede or follow it"
            )
        return None

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
        maker = RowMaker(self._writer.topic, partition, _record_columns(schema))
        rows = self._with_added(schema, maker.rows(wrong), {"reason": reasons})
        self._quarantine.write(rows, partition)

    def _maker(self, partition: int) -> RowMaker:
        if partition not in self._makers:
            columns = _record_columns(self._schema)
            self._makers[partition] = RowMaker(self._writer.topic, partition, columns)
        return self._makers[partition]

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


def _record_columns(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([field for field in schema if field.name not in _ADDED])
