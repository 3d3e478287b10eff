"""The task of a merge: rewrites files without superseded rows.

A row is superseded by a change of its key with a higher offset in its partition, and by a later
truncation; a delete is not a row itself. So changes and rows of the table are treated alike.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder, numbers_of
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.columns.rows import VALID_TO
from ottla.tables.entries import DataFile, FileRole, changes_of, deleted_of, inner_directory
from ottla.tables.files.data_files import DataFiles, part_batches
from ottla.tables.files.parquet_files import ParquetStyle, open_parquet
from ottla.tables.files.read_again import OtherRows, ReadAgain
from ottla.tables.layout import is_placed
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.upserts.change_feed import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    ChangedRows,
    ChangeFeed,
)
from ottla.tables.upserts.history import Ends, with_validity
from ottla.tables.upserts.resolution import (
    LatestChanges,
    Resolution,
    keyed_rows,
    offsets_by_partition,
)
from ottla.tables.writing.change_rows import CHANGE_COLUMNS, MERGE_KEY, RANK
from ottla.tables.writing.task_files import TaskFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestWriter:
    """A merge. `directory` is relative to the table; `again` are the offsets of a rerun, `beaten`
    the files of changes that rows of the table beat.
    """

    table: str
    directory: str
    order: RowOrder
    style: ParquetStyle
    partitioning: Partitioning | None
    resolutions: Mapping[int, Resolution]
    again: ReadAgain
    beaten: Sequence[str] = ()
    feed: ChangeFeed | None = None
    """Of a table with a change feed."""
    met: Sequence[str] = ()
    """Of a table with a change feed, the files of changes whose keys had a row."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """Of a table with history, the files of `history.Succession` by partition."""

    def write(self, bundle: Sequence[Sequence[DataFile]]) -> list[str]:
        """Merges whole files, of changes and of the table; returns a `BundleReport` as JSON."""
        return [_BundleWriter(self, open_store(self.table)).write(bundle).text]


@dataclass(slots=True)
class BundleReport:
    """The result of a task; `dropped_count` counts changes that were superseded, `deleted_count`
    deleted keys that are kept, of changes and of the table.
    """

    written: list[str]
    replaced: list[str]
    upserted_count: int = 0
    retained_count: int = 0
    superseded_count: int = 0
    dropped_count: int = 0
    deleted_count: int = 0
    change_data: list[str] = field(default_factory=list)
    """The files of the change feed."""
    undeleted_count: int = 0
    """Deleted keys of the table that a change supersedes."""

    @property
    def text(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @property
    def read_count(self) -> int:
        return self.row_count + self.superseded_count + self.dropped_count + self.undeleted_count

    @property
    def row_count(self) -> int:
        """The number of rows written."""
        return self.upserted_count + self.retained_count + self.deleted_count


_OF_DELETED = [MERGE_KEY, RANK, "partition", "offset"]
"""The columns of changes that files of deleted keys have; there the first is `key`."""


class _Kept(NamedTuple):
    """The rows of a part that are written again, and their columns."""

    part: DataFile
    mask: "np.ndarray[Any, Any]"
    columns: list[str]
    ends: "pa.Array | None" = None
    """Of a table with history, the ends of all rows of the part."""


class _BundleWriter:
    def __init__(self, merge: LatestWriter, store: TableStore) -> None:
        self._merge = merge
        self._store = store
        self._files = DataFiles(store)
        self._others = OtherRows(self._files, merge.again)
        """The rows besides those that changes replace, as their records were read again."""
        self._changes = LatestChanges(store, merge.order, merge.resolutions, merge.beaten)
        self._ends = Ends(store, merge.ends)
        self._report = BundleReport([], [])
        self._met = offsets_by_partition(store, merge.met)
        self._fed: list[ChangedRows] = []

    def write(self, bundle: Sequence[Sequence[DataFile]]) -> BundleReport:
        kept = [one for parts in bundle for one in self._kept(parts) if one.mask.any()]
        by_place = sorted(kept, key=lambda one: (one.part.partition, one.part.first_offset))
        outputs: dict[str, TaskFiles] = {}
        with ExitStack() as stack:
            for one in by_place:
                shape = str([self._files.columns(one.part).field(name) for name in one.columns])
                if shape not in outputs:
                    outputs[shape] = stack.enter_context(self._task_files(one))
                self._copy(one, outputs[shape])
        self._report.written += [path for one in outputs.values() for path in one.paths]
        if self._merge.feed is not None:
            self._report.change_data += self._merge.feed.write(self._store, self._fed)
        return self._report

    def _kept(self, parts: Sequence[DataFile]) -> "list[_Kept]":
        """What to keep of the parts of a file; nothing if a table's file is unchanged."""
        if self._is_change(parts[0]):
            return [kept for part in parts for kept in self._kept_changes(part)]
        if self._merge.order.history is not None:
            kept = [self._kept_of_history(part) for part in parts]
        else:
            columns = self._files.columns(parts[0]).names
            kept = [_Kept(part, self._mask_of_rows(part), columns) for part in parts]
        stay, lost = _counts([one.mask for one in kept])
        if not lost and all(one.ends is None for one in kept):
            return []
        self._feed_replaced(kept)
        self._report.replaced.append(parts[0].path)
        if parts[0].role is FileRole.DELETED:
            self._report.deleted_count += stay
            self._report.undeleted_count += lost
        else:
            self._report.retained_count += stay
            self._report.superseded_count += lost
        return kept

    def _feed_replaced(self, kept: "Sequence[_Kept]") -> None:
        """Notes the rows of a replaced file that change."""
        import numpy as np

        for one in kept if self._merge.feed is not None else ():
            if one.part.role is not FileRole.ROWS:
                continue
            if self._merge.order.history is None:
                rows = keyed_rows(self._store, one.part, self._merge.order)
                is_updated = self._changes.are_updated(one.part, rows)
                kinds = np.where(is_updated, BEFORE, DELETE).astype(object)
                self._fed.append(ChangedRows(one.part, ~one.mask, kinds))
                continue
            self._fed.append(ChangedRows(one.part, ~one.mask, DELETE))
            if one.ends is not None:
                changed = one.mask & _are_unlike(one.ends, self._ends_there(one.part))
                self._fed.append(ChangedRows(one.part, changed, BEFORE))
                self._fed.append(ChangedRows(one.part, changed, AFTER, one.ends))

    def _ends_there(self, part: DataFile) -> "pa.Array":
        """The ends of rows as they are in the table."""
        return numbers_of(self._files.rows(part, [VALID_TO])[VALID_TO].combine_chunks())

    def _kept_of_history(self, part: DataFile) -> "_Kept":
        """What to keep of a part; its `ends` are `None` if none has changed."""
        columns = self._files.columns(part).names
        offsets = self._files.offsets(part)
        mask = self._others.mask(part.partition, offsets)
        if part.role is not FileRole.ROWS:
            return _Kept(part, mask, columns)
        has = self._ends_there(part)
        ends = self._ends.of(part, offsets, has)
        return _Kept(part, mask, columns, None if mask.all() and ends.equals(has) else ends)

    def _kept_changes(self, part: DataFile) -> "Iterator[_Kept]":
        import numpy as np
        import pyarrow as pa

        offsets = self._files.offsets(part)
        rows = self._changes.stay(part, offsets)
        deletes = self._changes.are_deletes(part, offsets)
        count, deleted_count = int(rows.sum()), int(deletes.sum())
        self._report.upserted_count += count
        self._report.deleted_count += deleted_count
        self._report.dropped_count += len(offsets) - count - deleted_count
        there = self._files.columns(part).names
        columns = [name for name in there if name not in CHANGE_COLUMNS]
        ends = None
        if self._merge.order.history is not None:
            ends = self._ends.of(part, offsets, pa.nulls(len(offsets), pa.int64()))
        if self._merge.feed is not None:
            is_known = np.isin(offsets, self._met.get(part.partition, []))
            kinds = np.where(is_known, AFTER, INSERT).astype(object)
            self._fed.append(ChangedRows(part, rows, kinds, ends))
        yield _Kept(part, rows, columns, ends)
        yield _Kept(part, deletes, _OF_DELETED)

    def _mask_of_rows(self, part: DataFile) -> "np.ndarray[Any, Any]":
        rows = keyed_rows(self._store, part, self._merge.order)
        found = self._changes.survive(part, rows)
        found &= self._others.mask(part.partition, rows["offset"].to_numpy())
        return found

    def _copy(self, kept: "_Kept", output: TaskFiles) -> None:
        import pyarrow as pa

        position, part = 0, kept.part
        with open_parquet(self._store, part.path, part.kept) as opened:
            for batch in part_batches(opened, part, kept.columns):
                mask = pa.array(kept.mask[position : position + batch.num_rows])
                rows = batch.filter(mask)
                if kept.ends is not None:
                    ends = kept.ends.slice(position, batch.num_rows).filter(mask)
                    rows = with_validity(rows, self._merge.order, ends)
                position += batch.num_rows
                if not rows.num_rows:
                    continue
                if kept.columns is _OF_DELETED:
                    names = ["key" if name == MERGE_KEY else name for name in kept.columns]
                    rows = rows.rename_columns(names)
                if self._is_change(part) or not is_placed(part, self._merge.partitioning):
                    output.write(rows, part.partition)
                else:
                    output.write_into(inner_directory(part), rows, part.partition)

    def _task_files(self, kept: "_Kept") -> TaskFiles:
        first = kept.part
        is_deleted = first.role is FileRole.DELETED or kept.columns is _OF_DELETED
        directory = self._merge.directory
        style = self._merge.style
        return TaskFiles(
            self._store,
            deleted_of(directory) if is_deleted else directory,
            f"{first.partition}-{first.first_offset}",
            style=replace(style, field_ids={}) if is_deleted else style,
            partitioning=None if is_deleted else self._merge.partitioning,
        )

    def _is_change(self, part: DataFile) -> bool:
        return part.path.startswith(changes_of(self._merge.directory))


def _are_unlike(ones: "pa.Array", others: "pa.Array") -> "np.ndarray[Any, Any]":
    """A mask of values that differ, or of which one is null."""
    import numpy as np
    import pyarrow.compute as pc

    differs = pc.fill_null(pc.not_equal(ones, others), False)
    found = pc.or_(differs, pc.xor(ones.is_null(), others.is_null()))
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _counts(masks: "Sequence[np.ndarray[Any, Any]]") -> tuple[int, int]:
    """The number of rows that stay and of other rows."""
    stay = sum(int(mask.sum()) for mask in masks)
    return stay, sum(len(mask) for mask in masks) - stay
