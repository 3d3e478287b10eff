"""Data files as a dataset of Arrow: lazily, but for files in which rows were deleted."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.tables.columns.statistics import LeafStatistics
from ottla.tables.columns.statistics import Path as LeafPath
from ottla.tables.files.guarantees import guarantee
from ottla.tables.files.parquet_files import row_mask, values_in
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset


def data_set(
    store: TableStore,
    files: Mapping[str, bytes | None],
    columns: "pa.Schema",
    statistics: Mapping[str, Mapping[LeafPath, LeafStatistics]],
) -> "pyarrow.dataset.Dataset":
    """The rows of files, given with what is kept of each (`DataFile.kept`), in these columns.

    Readers skip files by their `statistics`. Files in which rows were deleted are read at once.
    """
    import pyarrow.dataset

    parquet, file_system = pyarrow.dataset.ParquetFileFormat(), store.arrow()

    def of_files(*paths: str) -> "pyarrow.dataset.Dataset":
        fragments = [
            parquet.make_fragment(
                store.arrow_path(path),
                file_system,
                guarantee(columns, values_in(path), statistics.get(path, {})),
            )
            for path in paths
        ]
        return pyarrow.dataset.FileSystemDataset(fragments, columns, parquet, file_system)

    whole = of_files(*(path for path, kept in files.items() if kept is None))
    parts = []
    for path, kept in files.items():
        if kept is not None:
            rows = of_files(path).to_table()
            rows = rows.filter(pyarrow.array(row_mask(kept, rows.num_rows)))
            parts.append(pyarrow.dataset.InMemoryDataset(rows))
    return pyarrow.dataset.UnionDataset(columns, [whole, *parts]) if parts else whole
