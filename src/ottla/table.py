"""A table that `ottla load` filled, for readers of any kind: which files it is, and until when.

    import ottla.table

    ottla.table.files("table/")                        # for any engine: DuckDB, polars, pandas, ...
    ottla.table.dataset("table/")                      # a pyarrow dataset, if pyarrow is there
    ottla.table.complete_hours("table/")[-1].name      # "2026-07-20T13"

Needs neither Spark nor Java. What is returned is one moment of the table: commits that follow do
not change it, and its files stay until `ottla table vacuum` finds them replaced long enough ago.
"""

from typing import TYPE_CHECKING

from ottla.tables.completeness import CompleteHour
from ottla.tables.completeness import complete_hours as _complete_hours
from ottla.tables.data_files import read_columns
from ottla.tables.manifest import DataFile, FileRole
from ottla.tables.object_table import ObjectTable
from ottla.tables.table_directory import TableDirectory

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = [
    "CompleteHour",
    "DataFile",
    "ObjectTable",
    "complete_hours",
    "data_files",
    "dataset",
    "files",
]


def files(path: str) -> list[str]:
    """The absolute paths of the Parquet files with rows, or their addresses.

    Raises `UserError` without a table.

    >>> [file.rpartition(".")[2] for file in ottla.table.files(table)]
    ['parquet']
    """
    return [f"{TableDirectory(path).path}/{file.path}" for file in data_files(path)]


def data_files(path: str, role: FileRole = FileRole.ROWS) -> list[DataFile]:
    """The same with what the manifest says of each, by partition and offset.

    >>> file, = ottla.table.data_files(table)
    >>> file.row_count, file.first_offset, file.last_offset
    (2, 0, 1)
    """
    found = [file for file in TableDirectory(path).current_files() if file.role is role]
    return sorted(found, key=lambda file: (file.partition, file.first_offset))


def dataset(path: str) -> "pyarrow.dataset.Dataset":
    """All rows, lazily; columns in the names of directories (`day=2026-01-31`) are there too.

    Where a schema has grown, older rows have nulls in the new columns. Raises `CorruptionError`
    for a file that is missing or damaged.

    >>> ottla.table.dataset(table).to_table().column("value").to_pylist()
    [b'tea', b'cake']
    """
    import pyarrow.dataset

    table = TableDirectory(path)
    chosen = data_files(path)
    paths = [table.store.arrow_path(file.path) for file in chosen]
    has_values = any(file.values for file in chosen)
    return pyarrow.dataset.dataset(
        paths,
        schema=_schema(table, chosen),
        format="parquet",
        partitioning=pyarrow.dataset.partitioning(flavor="hive") if has_values else None,
        partition_base_dir=table.store.arrow_path("") if has_values else None,
        filesystem=table.store.arrow(),
    )


def complete_hours(path: str) -> list[CompleteHour]:
    """The hours of which the table has all that was appended; see the load manifest's page.

    >>> [hour.name for hour in ottla.table.complete_hours(table)]
    ['2026-01-01T00']
    """
    return _complete_hours(TableDirectory(path).entries())


def _schema(table: TableDirectory, chosen: list[DataFile]) -> "pyarrow.Schema":
    """Of all commits together: the files of one have one schema."""
    import pyarrow as pa

    one_of_each = {file.path.split("/")[1]: file for file in chosen}
    schemas = [read_columns(table.store, file) for file in one_of_each.values()]
    names = sorted({name for file in chosen for name in file.values})
    schemas.append(pa.schema([(name, pa.string()) for name in names]))
    return pa.unify_schemas(schemas, promote_options="permissive")
