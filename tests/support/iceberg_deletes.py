"""Deletes rows of an Iceberg table by delete files, as engines do that merge when they read.

No package that tests may install writes them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Deletions(_FastAppendFiles):
    def new_manifest_writer(self, spec: Any) -> Any:
        metadata = self._transaction.table_metadata
        output = self.new_manifest_output()
        return _DeletesWriter(spec, metadata.schema(), output, self._snapshot_id, "null")


def delete_positions(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    file_format: FileFormat = FileFormat.PARQUET,
) -> None:
    """Deletes rows by their positions in data files, given by location."""
    pairs = sorted((path, one) for path, some in positions.items() for one in some)
    paths, places = zip(*pairs, strict=True)
    rows = pa.table({"file_path": pa.array(paths), "pos": pa.array(places, pa.int64())})
    _commit(table, rows, DataFileContent.POSITION_DELETES, file_format)


def delete_equal(
    table: Table,
    rows: pa.Table,
    ids: Sequence[int],
    file_format: FileFormat = FileFormat.PARQUET,
) -> None:
    """Deletes rows that are equal to one of these in the columns with these ids."""
    content = DataFileContent.EQUALITY_DELETES
    _commit(table, rows, content, file_format, equality_ids=list(ids))


_AVRO_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}


def _write(rows: pa.Table, file: Any, file_format: FileFormat) -> None:
    if file_format is FileFormat.PARQUET:
        pq.write_table(rows, file)
    elif file_format is FileFormat.ORC:
        orc.write_table(rows, file)
    else:
        fields = [{"name": one.name, "type": _AVRO_TYPES[one.type]} for one in rows.schema]
        schema = {"type": "record", "name": "row", "fields": fields}
        fastavro.writer(file, schema, rows.to_pylist())


def _commit(
    table: Table, rows: pa.Table, content: DataFileContent, file_format: FileFormat, **given: Any
) -> None:
    name = f"{content.name}-{len(table.metadata.snapshots)}.{file_format.value.lower()}"
    path = f"{table.location()}/data/{name}"
    with table.io.new_output(path).create() as file:
        _write(rows, file, file_format)
    made = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=file_format,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        spec_id=table.metadata.default_spec_id,
        **given,
    )
    transaction = table.transaction()
    producer = _Deletions(Operation.APPEND, transaction, table.io)
    producer.append_data_file(made)
    producer.commit()
    transaction.commit_transaction()
