"""Rows of Iceberg that another program deleted by delete files: positions, vectors, and equality.

The specification's rules of which delete file applies to which data file are pyiceberg's for
positions; equality deletes, which it does not read, apply to files of earlier snapshots, of the
same partition or of all if they are of none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import INITIAL_SEQUENCE_NUMBER, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.table.delete_file_index import DeleteFileIndex

from ottla.base.errors import UserError
from ottla.base.values import dataclass

Mask = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Deletes:
    """The delete files of a snapshot."""

    io: FileIO
    schema: Schema
    entries: Sequence[ManifestEntry]

    @property
    def is_none(self) -> bool:
        return all(one.data_file.content is DataFileContent.DATA for one in self.entries)

    def masks(self) -> Mapping[str, Mask]:
        """By the location of a data file, which of its rows are there, if others are deleted."""
        by_position = DeleteFileIndex()
        of_equality: list[ManifestEntry] = []
        for one in self.entries:
            if one.data_file.content is DataFileContent.POSITION_DELETES:
                by_position.add_delete_file(one, partition_key=one.data_file.partition)
            elif one.data_file.content is DataFileContent.EQUALITY_DELETES:
                of_equality.append(one)
        found = {}
        for one in self.entries:
            file = one.data_file
            if file.content is not DataFileContent.DATA:
                continue
            mask = np.ones(file.record_count, bool)
            positions = by_position.for_data_file(_sequence(one), file, file.partition)
            mask[self._positions(file.file_path, positions)] = False
            for delete in of_equality:
                if _applies(delete, one):
                    mask &= self._unequal(delete.data_file, file)
            if not mask.all():
                found[file.file_path] = mask
        return found

    def _positions(self, path: str, deletes: Iterable[IcebergFile]) -> Mask:
        read = (_read_deletes(self.io, one).get(path) for one in deletes)
        found = [np.asarray(one) for one in read if one is not None]
        return np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64)

    def _unequal(self, delete: IcebergFile, file: IcebergFile) -> Mask:
        """Which rows of a data file are equal to no row of a delete file; nulls are equal."""
        ids = list(delete.equality_ids or ())
        gone = set(self._values(delete, ids))
        return np.array([one not in gone for one in self._values(file, ids)], bool)

    def _values(self, file: IcebergFile, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        if file.file_format is not FileFormat.PARQUET:
            raise UserError(
                f"{file.file_path}: another program has deleted rows by a file of "
                f"{file.file_format.value}, and ottla reads those of Parquet; rewrite the data "
                f"with Iceberg's rewrite_data_files (option delete-file-threshold of 1)"
            )
        with self.io.new_input(file.file_path).open() as opened:
            rows = pq.ParquetFile(opened).read()
        columns = [_column(rows, self.schema.find_column_name(one) or "") for one in ids]
        return list(zip(*columns, strict=True))


def _column(rows: pa.Table, name: str) -> list[Any]:
    """The values of a column or a field; nulls where the file is older than it."""
    first, *inner = name.split(".")
    if first not in rows.column_names:
        return [None] * rows.num_rows
    values: list[Any] = rows[first].to_pylist()
    for one in inner:
        values = [None if value is None else value.get(one) for value in values]
    return values


def _applies(delete: ManifestEntry, data: ManifestEntry) -> bool:
    if _sequence(data) >= _sequence(delete):
        return False
    ours, theirs = delete.data_file, data.data_file
    is_of_all = not len(ours.partition)
    return is_of_all or (ours.spec_id == theirs.spec_id and ours.partition == theirs.partition)


def _sequence(entry: ManifestEntry) -> int:
    return entry.sequence_number or INITIAL_SEQUENCE_NUMBER


def packed(masks: Mapping[str, Mask], relative: Callable[[str], str]) -> dict[str, bytes]:
    """The masks as `DataFile.kept`, by paths relative to the table."""
    return {relative(path): np.packbits(mask).tobytes() for path, mask in masks.items()}
