"""Deletes rows of an Iceberg table by delete files, as engines do that merge when they read.

No package that tests may install writes them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


def delete_positions(table: Table, positions: Mapping[str, Sequence[int]]) -> None:
    """Deletes rows by their positions in data files, given by location."""
    pairs = sorted((path, one) for path, some in positions.items() for one in some)
    paths, places = zip(*pairs, strict=True)
    rows = pa.table({"file_path": pa.array(paths), "pos": pa.array(places, pa.int64())})
    _commit(table, rows, DataFileContent.POSITION_DELETES)


def delete_equal(table: Table, rows: pa.Table, ids: Sequence[int]) -> None:
    """Deletes rows that are equal to one of these in the columns with these ids."""
    _commit(table, rows, DataFileContent.EQUALITY_DELETES, equality_ids=list(ids))


def _commit(table: Table, rows: pa.Table, content: DataFileContent, **given: Any) -> None:
    path = f"{table.location()}/data/{content.name}-{len(table.metadata.snapshots)}.parquet"
    with table.io.new_output(path).create() as file:
        pq.write_table(rows, file)
    made = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
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
