"""Until when each row of a table with history is valid: until the next record of its key.

One task for each scope of keys puts the changes of a load, and the rows and deleted keys of the
table that they may come between, into the order of ranks, one range of keys at a time. It writes
for each partition the ends of the rows that are new, or that may have another end now. A record
that comes late so gets its place between those before and after it. The task holds 16 bytes for
each of these rows in memory.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder, places_of, versions_of
from ottla.tables.columns.rows import IS_CURRENT, VALID_FROM, VALID_TO
from ottla.tables.entries import DataFile, changes_of
from ottla.tables.files.data_files import DataFiles
from ottla.tables.files.parquet_files import open_parquet
from ottla.tables.files.read_again import OtherRows, ReadAgain
from ottla.tables.stores.store import TableStore, open_store
from ottla.tables.upserts.key_runs import merged_runs
from ottla.tables.upserts.resolution import (
    Resolution,
    keyed_rows,
    output_of_columns,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The task that orders the records of each key; `again` are the offsets of a rerun."""

    table: str
    directory: str
    order: RowOrder
    keys_at_once: int
    again: ReadAgain

    def find(self, resolution: Resolution, parts: Sequence[DataFile]) -> list[str]:
        """Writes the ends of rows; returns the files by partition, as JSON."""
        import pyarrow as pa

        store = open_store(self.table)
        found: dict[int, list[pa.Table]] = {}
        for window in merged_runs(store, [resolution.latest], self.keys_at_once, keeps_all=True):
            rows = [window.rename_columns(["key", "rank"]), *self._there(store, parts, window)]
            for partition, ends in _ends(pa.concat_tables(rows)):
                found.setdefault(partition, []).append(ends)
        return [json.dumps({one: self._written(store, one, some) for one, some in found.items()})]

    def _there(
        self, store: TableStore, parts: Sequence[DataFile], window: "pa.Table"
    ) -> "Iterator[pa.Table]":
        """The rows of the table of a window's keys, and their deletes."""
        import pyarrow.compute as pc

        keys = window["key"].combine_chunks()
        first, last = keys[0].as_py(), keys[-1].as_py()
        others = OtherRows(DataFiles(store), self.again)
        for part in parts:
            if part.keys is None or (part.keys[0] <= last and first <= part.keys[1]):
                rows = keyed_rows(store, part, self.order)
                rows = rows.filter(others.mask(part.partition, rows["offset"].to_numpy()))
                yield rows.filter(pc.is_in(rows["key"], keys)).select(["key", "rank"])

    def _written(self, store: TableStore, partition: int, ends: "Sequence[pa.Table]") -> str:
        import pyarrow as pa

        path = f"{changes_of(self.directory)}/ends-{partition}-{secrets.token_hex(4)}.parquet"
        rows = pa.concat_tables(ends).sort_by("offset")
        with output_of_columns(store, path, rows.schema) as write:
            for start in range(0, rows.num_rows, _GROUP_ROWS):
                write(rows.slice(start, _GROUP_ROWS).columns)
        return path


def _ends(rows: "pa.Table") -> "Iterator[tuple[int, pa.Table]]":
    """By partition, the offsets of rows and the version that ends each; null for current ones."""
    import numpy as np
    import pyarrow as pa

    in_order = rows.sort_by([("key", "ascending"), ("rank", "ascending")])
    ranks = in_order["rank"].combine_chunks()
    keys = in_order["key"].combine_chunks()
    is_last = np.append(~np.asarray(_equal(keys.slice(1), keys.slice(0, len(keys) - 1))), True)
    ends = np.append(versions_of(ranks.slice(1)), 0)
    places = places_of(ranks)
    is_row = places["is_deleted"] == 0
    for partition in np.unique(places["partition"]).tolist():
        some = is_row & (places["partition"] == partition)
        offsets = places["offset"][some].astype(np.int64)
        yield (
            partition,
            pa.table({"offset": offsets, "end": pa.array(ends[some], mask=is_last[some])}),
        )


def _equal(ones: "pa.Array", others: "pa.Array") -> Any:
    import pyarrow.compute as pc

    return pc.equal(ones, others).to_numpy(zero_copy_only=False).astype(bool)


class Ends:
    """Reads the ends of rows; `paths` are the files by partition."""

    def __init__(self, store: TableStore, paths: Mapping[str, str]) -> None:
        self._store = store
        self._paths = paths

    def of(self, part: DataFile, offsets: "np.ndarray[Any, Any]", ends: "pa.Array") -> "pa.Array":
        """The ends of rows, which were `ends` until now."""
        import pyarrow as pa
        import pyarrow.compute as pc

        path = self._paths.get(str(part.partition))
        if path is None:
            return ends
        with open_parquet(self._store, path) as opened:
            groups = [
                number
                for number in range(opened.num_row_groups)
                if _overlaps(opened.metadata.row_group(number).column(0).statistics, part)
            ]
            found = opened.read_row_groups(groups)
        places = pc.index_in(pa.array(offsets), found["offset"].combine_chunks())
        return pc.if_else(places.is_valid(), found["end"].combine_chunks().take(places), ends)


def _overlaps(bounds: Any, part: DataFile) -> bool:
    return bool(bounds.min <= part.last_offset and part.first_offset <= bounds.max)


def with_validity(rows: "pa.RecordBatch", order: RowOrder, ends: "pa.Array") -> "pa.RecordBatch":
    """Rows with the columns of their validity; `ends` as whole numbers, null for current ones."""
    for name, column in (
        (VALID_FROM, order.valid_from(rows)),
        (VALID_TO, order.as_version(ends)),
        (IS_CURRENT, ends.is_null()),
    ):
        index = rows.schema.get_field_index(name)
        if index < 0:
            rows = rows.append_column(name, column)
        else:
            rows = rows.set_column(index, name, column)
    return rows
