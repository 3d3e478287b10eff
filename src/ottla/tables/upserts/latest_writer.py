"""The task of a merge: rewrites files without superseded rows.

A row is superseded by a change of its key with a higher offset in its partition, and by a later
truncation; a delete is not a row itself. So changes and rows of the table are treated alike.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.entries import DataFile, changes_of, inner_directory
from ottla.tables.files.data_files import DataFiles, part_batches
from ottla.tables.files.parquet_files import ParquetStyle, open_parquet
from ottla.tables.layout import is_placed
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.upserts.resolution import LatestChanges, Resolution
from ottla.tables.writing.task_files import TaskFiles

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestWriter:
    """A merge. `directory` is relative to the table; `again` are the offsets of a rerun."""

    table: str
    directory: str
    style: ParquetStyle
    partitioning: Partitioning | None
    resolutions: Mapping[int, Resolution]
    again: Mapping[int, OffsetRange]

    def write(self, bundle: Sequence[Sequence[DataFile]]) -> list[str]:
        """Merges whole files, of changes and of the table; returns a `BundleReport` as JSON."""
        return [_BundleWriter(self, open_store(self.table)).write(bundle).text]


@dataclass(slots=True)
class BundleReport:
    """The result of a task; `dropped_count` counts changes that were superseded."""

    written: list[str]
    replaced: list[str]
    upserted_count: int = 0
    retained_count: int = 0
    superseded_count: int = 0
    dropped_count: int = 0

    @property
    def text(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @property
    def read_count(self) -> int:
        return self.row_count + self.superseded_count + self.dropped_count

    @property
    def row_count(self) -> int:
        """The number of rows written."""
        return self.upserted_count + self.retained_count


class _BundleWriter:
    def __init__(self, merge: LatestWriter, store: TableStore) -> None:
        self._merge = merge
        self._store = store
        self._files = DataFiles(store)
        self._changes = LatestChanges(store, merge.resolutions)
        self._report = BundleReport([], [])

    def write(self, bundle: Sequence[Sequence[DataFile]]) -> BundleReport:
        masked = [
            (part, mask) for parts in bundle for part, mask in self._masked(parts) if mask.any()
        ]
        by_place = sorted(masked, key=lambda one: (one[0].partition, one[0].first_offset))
        outputs: dict[str, TaskFiles] = {}
        with ExitStack() as stack:
            for part, mask in by_place:
                schema = self._files.columns(part)
                names = [name for name in schema.names if name != "is_deleted"]
                shape = str([schema.field(name) for name in names])
                if shape not in outputs:
                    outputs[shape] = stack.enter_context(self._task_files(part))
                self._copy(part, mask, names, outputs[shape])
        self._report.written += [path for one in outputs.values() for path in one.paths]
        return self._report

    def _masked(self, parts: Sequence[DataFile]) -> "list[tuple[DataFile, np.ndarray[Any, Any]]]":
        """The parts of a file with masks of rows to keep; empty if a table's file is unchanged."""
        if self._is_change(parts[0]):
            masks = [self._mask_of_changes(part) for part in parts]
            stay, lost = _counts(masks)
            self._report.upserted_count += stay
            self._report.dropped_count += lost
        else:
            masks = [self._mask_of_rows(part) for part in parts]
            stay, lost = _counts(masks)
            if not lost:
                return []
            self._report.replaced.append(parts[0].path)
            self._report.retained_count += stay
            self._report.superseded_count += lost
        return list(zip(parts, masks, strict=True))

    def _mask_of_changes(self, part: DataFile) -> "np.ndarray[Any, Any]":
        offsets = self._files.offsets(part)
        return self._changes.stay(part, offsets)

    def _mask_of_rows(self, part: DataFile) -> "np.ndarray[Any, Any]":
        rows = self._files.rows(part, ["key", "offset"])
        offsets = rows["offset"].to_numpy()
        found = self._changes.survive(part, rows["key"], offsets)
        again = self._merge.again.get(part.partition)
        if again is not None:
            # Rows at offsets that are read again are replaced by changes.
            found &= (offsets < again.from_offset) | (offsets >= again.until_offset)
        return found

    def _copy(
        self, part: DataFile, mask: "np.ndarray[Any, Any]", names: list[str], output: TaskFiles
    ) -> None:
        import pyarrow as pa

        position = 0
        with open_parquet(self._store, part.path) as opened:
            for batch in part_batches(opened, part, names):
                rows = batch.filter(pa.array(mask[position : position + batch.num_rows]))
                position += batch.num_rows
                if not rows.num_rows:
                    continue
                if self._is_change(part) or not is_placed(part, self._merge.partitioning):
                    output.write(rows, part.partition)
                else:
                    output.write_into(inner_directory(part), rows, part.partition)

    def _task_files(self, first: DataFile) -> TaskFiles:
        return TaskFiles(
            self._store,
            self._merge.directory,
            f"{first.partition}-{first.first_offset}",
            style=self._merge.style,
            partitioning=self._merge.partitioning,
        )

    def _is_change(self, part: DataFile) -> bool:
        return part.path.startswith(changes_of(self._merge.directory))


def _counts(masks: "Sequence[np.ndarray[Any, Any]]") -> tuple[int, int]:
    """The number of rows that stay and of other rows."""
    stay = sum(int(mask.sum()) for mask in masks)
    return stay, sum(len(mask) for mask in masks) - stay
