"""Rows of Iceberg that another program deleted by delete files: positions, vectors, and equality.

The specification's rules of which delete file applies to which data file are pyiceberg's for
positions; equality deletes, which it does not read, apply to files of earlier snapshots, of the
same partition or of all if they are of none. Delete files may be of Parquet, ORC or Avro.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _read_deletes, schema_to_pyarrow
from pyiceberg.manifest import INITIAL_SEQUENCE_NUMBER, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.table.delete_file_index import DeleteFileIndex

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
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
        read = (_positions_in(self.io, one).get(path) for one in deletes)
        found = [np.asarray(one) for one in read if one is not None]
        return np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64)

    def _unequal(self, delete: IcebergFile, file: IcebergFile) -> Mask:
        """Which rows of a data file are equal to no row of a delete file; nulls are equal."""
        ids = list(delete.equality_ids or ())
        gone = set(self._values(delete, ids))
        return np.array([one not in gone for one in self._values(file, ids)], bool)

    def _values(self, file: IcebergFile, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        rows = _rows(self.io, file)
        return list(zip(*(self._column(file, rows, one) for one in ids), strict=True))

    def _column(self, file: IcebergFile, rows: pa.Table, field_id: int) -> list[Any]:
        """The values of a column or a field; nulls where a data file is older than it."""
        name = self.schema.find_column_name(field_id) or ""
        first, *inner = name.split(".")
        if first not in rows.column_names:
            if file.content is not DataFileContent.DATA:
                raise UserError(
                    f"{file.file_path}: another program has deleted rows by column {field_id}, "
                    f"which the file does not have by the table's name {name!r}; {_REWRITE}"
                )
            return [None] * rows.num_rows
        values: list[Any] = rows[first].to_pylist()
        for one in inner:
            values = [None if value is None else value.get(one) for value in values]
        # Formats tell times with and without a zone, and narrow numbers, in different ways.
        kind = schema_to_pyarrow(self.schema.find_type(field_id))
        return list(pa.array(values, kind).to_pylist())


_REWRITE = "rewrite the data with Iceberg's rewrite_data_files (option delete-file-threshold of 1)"


def _positions_in(io: FileIO, file: IcebergFile) -> Mapping[str, Any]:
    """The deleted positions of a file of positions or vectors, by the location of the data file."""
    if file.file_format is not FileFormat.AVRO:
        found: Mapping[str, Any] = _read_deletes(io, file)
        return found
    rows = _rows(io, file)
    places: dict[str, list[int]] = {}
    for path, position in zip(rows["file_path"].to_pylist(), rows["pos"].to_pylist(), strict=True):
        places.setdefault(path, []).append(position)
    return places


def _rows(io: FileIO, file: IcebergFile) -> pa.Table:
    """Raises `UserError` for another format."""
    with io.new_input(file.file_path).open() as opened:
        if file.file_format is FileFormat.PARQUET:
            return pq.ParquetFile(opened).read()
        if file.file_format is FileFormat.ORC:
            from pyarrow import orc

            return orc.ORCFile(opened).read()
        if file.file_format is FileFormat.AVRO:
            with needed_for("a delete file of Avro"):
                import fastavro
            return pa.Table.from_pylist(list(fastavro.reader(opened)))
    raise UserError(
        f"{file.file_path}: another program has deleted rows by a file of "
        f"{file.file_format.value}, and ottla reads those of Parquet, ORC and Avro; {_REWRITE}"
    )


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
