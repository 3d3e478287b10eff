"""The files that one task of a load writes: one or more for each directory.

File names are unique even if a task is repeated; only files whose names a completed task returned
are used.
"""

import secrets
from typing import TYPE_CHECKING, Any

from ottla.base.files import join
from ottla.tables.columns.partitions import Partitioning, parted
from ottla.tables.files.parquet_files import ROW_GROUP_SIZE, ParquetOutput, ParquetStyle
from ottla.tables.stores.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

OPEN_FILES = 64
"""Open files of a task; when there are more directories, a directory may get several files."""


class TaskFiles:
    """The files of one task below one directory; with `partitioning`, in its directories."""

    def __init__(
        self,
        store: TableStore,
        directory: str,
        name: str,
        *,
        style: ParquetStyle,
        partitioning: Partitioning | None = None,
    ) -> None:
        self._store = store
        self._directory = directory
        self._name = name
        self._style = style
        self._partitioning = partitioning
        self._open: dict[str, ParquetOutput] = {}
        self.paths: list[str] = []
        """The completed files, relative to the table."""

    def __enter__(self) -> "TaskFiles":
        return self

    def __exit__(self, *error: Any) -> None:
        for name in list(self._open):
            if error[0] is None:
                self._close(name)
            else:
                self._open.pop(name).__exit__(*error)

    def write(self, rows: "pa.RecordBatch", partition: int) -> None:
        """Writes rows of one partition of the topic."""
        if self._partitioning is None:
            self.write_into("", rows, partition)
            return
        for inner, some in parted(rows, self._partitioning):
            self.write_into(inner, some, partition)

    def write_into(self, inner: str, rows: "pa.RecordBatch", partition: int) -> None:
        """Writes rows into the directory `inner`."""
        self._output(inner).write(rows, partition)
        if sum(one.held_size for one in self._open.values()) >= ROW_GROUP_SIZE:
            for one in self._open.values():
                one.flush()

    def _output(self, inner: str) -> ParquetOutput:
        found = self._open.pop(inner, None)
        if found is None:
            while len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            name = f"part-{self._name}-{secrets.token_hex(4)}.parquet"
            path = join(self._directory, *([inner] if inner else []), name)
            found = ParquetOutput(self._store, path, self._style)
        # Move the file to the end: the least recently used file is closed first.
        self._open[inner] = found
        return found

    def _close(self, inner: str) -> None:
        output = self._open.pop(inner)
        if output.close():
            self.paths.append(output.path)
