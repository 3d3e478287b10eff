"""Reads a table that `ottla load` filled: its rows, its files, and its complete hours.

    import ottla.table

    ottla.table.dataset("table/")                      # a pyarrow dataset, of now
    ottla.table.dataset("table/", offsets={0: 5000})   # as the log was when it ended there
    ottla.table.files("table/")                        # for any engine that takes paths
    ottla.table.complete_hours("table/")[-1].name      # "2026-07-20T13"

The table is also a Delta table, which engines open by its path alone. Results are a snapshot: later
commits do not change it, and its files stay until `ottla table vacuum` finds that they were
replaced long enough ago. Needs neither Spark nor Java.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.arguments import check_partition_offsets
from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables import (
    CompleteHour,
    Contents,
    DataFile,
    FileRole,
    LeafStatistics,
    Table,
    columns_of,
    data_set,
    loaded_partitions,
    quarantine_columns,
    whole_paths,
)
from ottla.tables import complete_hours as _complete_hours

if TYPE_CHECKING:
    import pyarrow.compute
    import pyarrow.dataset

__all__ = [
    "CompleteHour",
    "DataFile",
    "FileRole",
    "LeafStatistics",
    "complete_hours",
    "data_files",
    "dataset",
    "files",
    "quarantine",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Which state of a table is meant: the current one, unless one of these is given."""

    version: int | None = None
    time_ms: int | None = None
    offsets: Mapping[int, int] | None = None
    """By partition an end offset: only rows below it; a partition that is left out has none."""

    def files_of(self, table: Table) -> list[str]:
        """The files with rows, relative to the table, for who reads them whole.

        Raises `UserError` if more than one state is given, or the table does not have it any more,
        or if another program has deleted rows in a file.
        """
        return whole_paths(table.address, self.contents_of(table))

    def contents_of(self, table: Table) -> Contents:
        """The files with rows, and which of their rows are there; raises as `files_of` does."""
        version = self.version_of(table)
        contents = table.log.contents(version)
        if version is None:
            return contents
        current = _current_files(table)  # A vacuum removes none of these.
        asked = [table.store.arrow_path(one) for one in contents.paths if one not in current]
        found = table.store.arrow().get_file_info(asked)
        gone = sum(not one.is_file for one in found)
        if gone:
            raise UserError(
                f"{table.address}: {gone} of {len(contents.paths)} files of version {version} no "
                f"longer exist; a vacuum removes the files of versions older than its --keep-hours"
            )
        return contents

    def version_of(self, table: Table) -> int | None:
        """The version of the table that has the rows; `None` for the current one; raises as
        `files_of` does.
        """
        if self.offsets is not None:
            check_partition_offsets(self.offsets)
        given = (self.version, self.time_ms, self.offsets)
        if sum(one is not None for one in given) > 1:
            raise UserError("give only one of version, time and offsets")
        if self.time_ms is not None:
            return table.log.version_at(self.time_ms)
        if self.offsets is not None and table.layout().is_latest:
            return _version_of_state(table, self.offsets)
        loaded = table.state().loaded
        for number, offset in (self.offsets or {}).items():
            there = loaded[number].until_offset if number in loaded else 0
            if offset > there:
                raise UserError(
                    f"{table.path}: partition {number} is loaded up to offset {there}, not {offset}"
                )
        return self.version


def _version_of_state(table: Table, offsets: Mapping[int, int]) -> int | None:
    """The version of a table of latest rows at which loads had reached these offsets."""
    ends: dict[int, int] = {}
    found: list[int | None] = []
    for entry in table.entries():
        ends |= {number: one.until_offset for number, one in loaded_partitions([entry]).items()}
        if _begun(ends) == _begun(offsets):
            found.append(entry.version)
    if not found:
        raise UserError(
            f"{table.path}: it has the latest row of each key, as it was after each load, and no "
            f"load ended at these offsets; ottla table history shows where they did"
        )
    return found[-1]


def _begun(offsets: Mapping[int, int]) -> dict[int, int]:
    return {number: offset for number, offset in offsets.items() if offset}


def files(path: str) -> list[str]:
    """The absolute paths or URLs of the Parquet files with rows.

    Raises `UserError` without a table, and if another program has deleted rows in a file.

    >>> [file.rpartition(".")[2] for file in ottla.table.files(table)]
    ['parquet']
    """
    opened = Table(path)
    return [f"{opened.path}/{one}" for one in opened.whole_paths()]


def data_files(
    path: str, role: FileRole = FileRole.ROWS, *, version: int | None = None
) -> list[DataFile]:
    """The offsets of each partition in each file, in order of partition and offset.

    >>> file, = ottla.table.data_files(table)
    >>> file.row_count, file.first_offset, file.last_offset
    (2, 0, 1)
    """
    found = [one for one in Table(path).current_files(version) if one.role is role]
    return sorted(found, key=lambda file: (file.partition, file.first_offset))


def dataset(
    path: str,
    *,
    version: int | None = None,
    time_ms: int | None = None,
    offsets: Mapping[int, int] | None = None,
) -> "pyarrow.dataset.Dataset":
    """All rows, lazily, including columns in directory names (`day=2026-01-31`). The current rows,
    or those of a `version`, at a time, or when the log ended at `offsets`. If a schema has grown,
    older rows have nulls in the new columns. Raises `UserError` if the table, or that state of it,
    does not exist. Files in which another program has deleted rows are read at once.

    >>> ottla.table.dataset(table).to_table().column("value").to_pylist()
    [b'tea', b'cake']
    >>> ottla.table.dataset(table, offsets={0: 1}).to_table().column("value").to_pylist()
    [b'tea']
    """

    table = Table(path)
    table.require()
    moment = Moment(version=version, time_ms=time_ms, offsets=offsets)
    statistics = table.log.statistics(moment.version_of(table))
    contents = moment.contents_of(table)
    files = {path: contents.kept.get(path) for path in contents.paths}
    found = data_set(table.store, files, columns_of(table.layout()), statistics)
    if offsets is None:
        return found
    prefix = "_" if table.layout().is_flat else ""
    return found.filter(_below(offsets, prefix))


def quarantine(path: str) -> "pyarrow.dataset.Dataset":
    """The records that could not be decoded, with the reason and their bytes, lazily: null bytes of
    those that a load skipped. Raises `UserError` without a table.

    >>> ottla.table.quarantine(table).count_rows()
    0
    """
    import pyarrow.dataset

    table = Table(path)
    table.require()
    found = data_files(path, FileRole.QUARANTINE)
    return pyarrow.dataset.dataset(
        [table.store.arrow_path(one) for one in dict.fromkeys(file.path for file in found)],
        schema=quarantine_columns(with_bytes=True),
        format="parquet",
        filesystem=table.store.arrow(),
    )


def complete_hours(path: str) -> list[CompleteHour]:
    """The hours for which the table has all that was appended; see the page on the ledger.

    >>> [hour.name for hour in ottla.table.complete_hours(table)]
    ['2026-01-01T00']
    """
    return _complete_hours(Table(path).entries())


def _current_files(table: Table) -> set[str]:
    """Empty if the current rows cannot be read, which is no fault of an older version."""
    try:
        return set(table.log.contents().paths)
    except UserError:
        return set()


def _below(offsets: Mapping[int, int], prefix: str) -> "pyarrow.compute.Expression":
    import pyarrow.compute as pc

    found = pc.scalar(False)
    for number, offset in offsets.items():
        found = found | (
            (pc.field(f"{prefix}partition") == number) & (pc.field(f"{prefix}offset") < offset)
        )
    return found
