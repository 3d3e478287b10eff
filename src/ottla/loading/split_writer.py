"""The task of a load: reads a part of the log, decodes values, and writes the table's files.

Records never pass through Java. Records that cannot be decoded are quarantined at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.task import LoadTask, OnError
from ottla.loading.task_files import TaskFiles
from ottla.sources.log_source import LogSource, Split
from ottla.sources.opening import open_log
from ottla.sources.rows import RowMaker, decoded_columns
from ottla.sources.splits import SplitOptions, even_pieces
from ottla.tables.columns import aside_columns, change_columns, row_columns
from ottla.tables.ledger_entries import changes_of, quarantine_of
from ottla.tables.store import open_store
from ottla.tables.values.record_decoder import HEADER, RecordDecoder

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCE_NAMES = {"timestamp_type": "timestampType"}
"""The names of a table's columns that differ in Spark's own Kafka source."""


def write_splits(task: LoadTask, splits: Sequence[Split]) -> list[str]:
    """Writes the rows of the splits; returns the paths of the files, relative to the table."""
    log = open_log(task.read)
    store = open_store(task.table)
    first = splits[0]
    name = f"{first.place.partition}-{first.from_offset}"
    quarantine = quarantine_of(task.directory)
    # Changes get directories by time only when they are merged.
    place = changes_of(task.directory) if task.is_latest else task.directory
    partitioning = None if task.is_latest else task.partitioning
    with (
        TaskFiles(store, place, name, style=task.style, partitioning=partitioning) as files,
        TaskFiles(store, quarantine, name, style=replace(task.style, field_ids={})) as aside,
    ):
        for split in splits:
            for rows in SplitRows(task, split, aside).read(log):
                files.write(rows, split.place.partition)
    return files.paths + aside.paths


class SplitRows:
    """The rows of one split, in the columns of a table."""

    def __init__(self, task: LoadTask, split: Split, aside: TaskFiles) -> None:
        self._task = task
        self._split = split
        self._decoder = RecordDecoder(task.decoding, task.login)
        columns = change_columns if task.is_latest else row_columns
        self._schema = columns(self._decoder.types)
        self._maker = RowMaker(task.topic, split.place.partition, _source_schema(self._schema))
        self._aside = _Aside(task, split, aside)

    def read(self, log: LogSource) -> "Iterator[pa.RecordBatch]":
        wanted = decoded_columns(_source_schema(self._schema).names)
        for decoded in log.read(self._split, wanted):
            rows, faults = self._decoded(decoded)
            yield self._rows(self._without(rows, decoded, faults))

    def _decoded(self, decoded: "pa.RecordBatch") -> "tuple[pa.RecordBatch, Mapping[int, str]]":
        """The records with decoded values, and the faults of those that are not rows, by index."""
        found = self._decoder.decode(decoded)
        rows, faults = decoded, found.faults
        for name, column in found.columns.items():
            index = rows.schema.get_field_index(name)
            if index < 0:
                rows = rows.append_column(name, column)
            else:
                rows = rows.set_column(index, name, column)
        if self._task.is_latest:
            faults = {**self._unkeyed(decoded, found.truncations), **faults}
        return rows, faults

    def _unkeyed(self, decoded: "pa.RecordBatch", truncations: frozenset[int]) -> Mapping[int, str]:
        """The faults of changes without a usable key, by index."""
        import numpy as np

        has_no_key = decoded.column(decoded.schema.get_field_index("key")).is_null()
        return {
            index: fault
            for index in np.flatnonzero(has_no_key.to_numpy(False)).tolist()
            if (fault := self._key_fault(index in truncations)) is not None
        }

    def _key_fault(self, is_truncation: bool) -> str | None:
        if not is_truncation:
            return "it has no key, and rows are updated by key"
        if self._task.partition_count > 1:
            return (
                f"it reports a truncation of the source; changes in the other "
                f"{self._task.partition_count - 1} partitions may precede or follow it"
            )
        return None

    def _without(
        self, rows: "pa.RecordBatch", decoded: "pa.RecordBatch", faults: Mapping[int, str]
    ) -> "pa.RecordBatch":
        """The rows without faults; records with faults are handed to `_Aside`."""
        import numpy as np
        import pyarrow as pa

        if not faults:
            return rows
        self._aside.put(decoded, faults)
        is_sound = np.ones(rows.num_rows, dtype=bool)
        is_sound[list(faults)] = False
        return rows.filter(pa.array(is_sound))

    def _rows(self, decoded: "pa.RecordBatch") -> "pa.RecordBatch":
        rows = self._maker.rows(decoded)
        more = {}
        if HEADER in decoded.schema.names:
            more[HEADER] = decoded.column(HEADER)
        if self._task.is_latest:
            more["is_deleted"] = decoded.column(decoded.schema.get_field_index("value")).is_null()
        return _with_commit(self._schema, rows, self._task.commit_id, more)


class _Aside:
    """Handles the records of a split that cannot be decoded, as `on_error` demands."""

    def __init__(self, task: LoadTask, split: Split, files: TaskFiles) -> None:
        self._task = task
        self._split = split
        self._files = files
        self._schema = aside_columns(with_bytes=task.on_error is OnError.QUARANTINE)

    def put(self, decoded: "pa.RecordBatch", faults: Mapping[int, str]) -> None:
        import pyarrow as pa

        indices = sorted(faults)
        if self._task.on_error is OnError.FAIL:
            offset = decoded.column("offset")[indices[0]].as_py()
            raise UserError(
                f"{self._split.place}, offset {offset}: the record cannot be "
                f"made a row: {faults[indices[0]]} (--on-error quarantine sets such records aside)"
            )
        maker = RowMaker(
            self._task.topic, self._split.place.partition, _source_schema(self._schema)
        )
        rows = maker.rows(decoded.take(pa.array(indices, pa.int64())))
        reasons = pa.array([faults[index] for index in indices], pa.string())
        self._files.write(
            _with_commit(self._schema, rows, self._task.commit_id, {"reason": reasons}),
            self._split.place.partition,
        )


def task_splits(
    log: LogSource, ranges: Mapping[TopicPartition, OffsetRange], rows_per_task: int
) -> list[Split]:
    """Divides the ranges into splits of about equal offset counts, at most `rows_per_task`.

    The log's own splits are optimized for reading, these for the size of the files written.
    """
    given = log.splits(ranges, SplitOptions(min_count=1))
    return [
        split
        for place in ranges
        if (of_place := [one for one in given if one.place == place])
        for split in _pieces(of_place, rows_per_task)
    ]


def shared_out(splits: Sequence[Split], rows_per_task: int) -> list[list[Split]]:
    """Groups splits by task: small splits share a task, and so a file."""
    tasks: list[list[Split]] = []
    count = 0
    for split in splits:
        size = split.until_offset - split.from_offset
        if not tasks or count + size > rows_per_task:
            tasks.append([])
            count = 0
        tasks[-1].append(split)
        count += size
    return tasks


def _pieces(given: Sequence[Split], rows_per_task: int) -> Iterator[Split]:
    """Divides contiguous splits of one partition evenly."""
    aborted = tuple(dict.fromkeys(one for split in given for one in split.aborted))
    whole = OffsetRange(from_offset=given[0].from_offset, until_offset=given[-1].until_offset)
    for piece in even_pieces(whole, rows_per_task):
        yield replace(
            given[0],
            from_offset=piece.from_offset,
            until_offset=piece.until_offset,
            aborted=tuple(
                one
                for one in aborted
                if one.first_offset < piece.until_offset and one.last_offset >= piece.from_offset
            ),
        )


def _with_commit(
    schema: Any, rows: "pa.RecordBatch", commit_id: int, more: Mapping[str, Any]
) -> "pa.RecordBatch":
    """The rows with the table's column names and the columns that are not part of a record."""
    import pyarrow as pa

    ids = pa.repeat(pa.scalar(commit_id, pa.int64()), rows.num_rows)
    given = {"commit_id": ids, **more}
    columns = [
        given[field.name]
        if field.name in given
        else rows.column(_SOURCE_NAMES.get(field.name, field.name))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _source_schema(schema: Any) -> Any:
    """The columns that are part of a record, under their names in Spark's Kafka source."""
    import pyarrow as pa

    return pa.schema(
        [
            field.with_name(_SOURCE_NAMES.get(field.name, field.name))
            for field in schema
            if field.name not in ("commit_id", "reason", "is_deleted", HEADER)
        ]
    )
