"""The rows that a merge changes, as files of Delta's change data feed.

Each row is there with its columns and `_change_type`: `insert`, `delete`, or `update_preimage` and
`update_postimage` of a row whose key had one before. A version of a table with such files has all
of its changes in them.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import DataFile, change_data_of
from ottla.tables.files.data_files import part_batches
from ottla.tables.files.parquet_files import ParquetStyle, open_parquet
from ottla.tables.stores.store import TableStore
from ottla.tables.upserts.history import with_validity
from ottla.tables.writing.change_rows import CHANGE_COLUMNS
from ottla.tables.writing.task_files import TaskFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

CHANGE_TYPE = "_change_type"
INSERT, DELETE = "insert", "delete"
BEFORE, AFTER = "update_preimage", "update_postimage"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a part, and what became of each; `ends` are those of a table with history."""

    part: DataFile
    mask: "np.ndarray[Any, Any]"
    kinds: "np.ndarray[Any, Any] | str"
    ends: "pa.Array | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """Where and how the rows are written; `directory` is the commit's."""

    directory: str
    style: ParquetStyle
    partitioning: Partitioning | None
    order: RowOrder

    def write(self, store: TableStore, changed: list[ChangedRows]) -> list[str]:
        """Writes the rows; returns the paths of the files."""
        outputs: dict[str, TaskFiles] = {}
        with ExitStack() as stack:
            for one in changed:
                for rows in self._rows(store, one):
                    shape = str(rows.schema)
                    if shape not in outputs:
                        outputs[shape] = stack.enter_context(self._files(store, one.part))
                    outputs[shape].write(rows, one.part.partition)
        return [path for one in outputs.values() for path in one.paths]

    def _files(self, store: TableStore, first: DataFile) -> TaskFiles:
        return TaskFiles(
            store,
            change_data_of(self.directory),
            f"{first.partition}-{first.first_offset}",
            style=self.style,
            partitioning=self.partitioning,
        )

    def _rows(self, store: TableStore, changed: ChangedRows) -> "Any":
        import numpy as np
        import pyarrow as pa

        position, part = 0, changed.part
        kinds = np.broadcast_to(np.asarray(changed.kinds, object), changed.mask.shape)
        with open_parquet(store, part.path, part.kept) as opened:
            names = [one for one in opened.schema_arrow.names if one not in CHANGE_COLUMNS]
            for batch in part_batches(opened, part, names):
                here = slice(position, position + batch.num_rows)
                position += batch.num_rows
                mask = changed.mask[here]
                if not mask.any():
                    continue
                rows = batch.filter(pa.array(mask))
                if changed.ends is not None:
                    ends = changed.ends.slice(here.start, batch.num_rows).filter(pa.array(mask))
                    rows = with_validity(rows, self.order, ends)
                kind = pa.array(kinds[here][mask], pa.string())
                yield rows.append_column(CHANGE_TYPE, kind)
