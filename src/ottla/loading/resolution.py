"""Which of a load's changes win, found once for each partition, and kept beside the changes.

One task reads keys and offsets of all changes of a partition, and writes two small files: the last
offset of each key, in order of the keys, and the offsets of the rows that stay, in order. Tasks
that merge then read of these what their files may have. Memory is that of the changed keys.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ottla.tables.data_files import read_part
from ottla.tables.ledger_entries import DataFile, changes_of
from ottla.tables.parquet_files import open_parquet, range_of
from ottla.tables.store import TableStore, open_store

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """One partition's; paths are relative to the table."""

    partition: int
    latest: str
    """The file of keys and their last offsets."""
    winners: str
    """The file of the offsets of rows that stay."""
    truncated: int = -1
    """The offset of the last truncation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolving:
    """Tasks' work; `directory` is that of the load's files, relative to the table."""

    table: str
    directory: str

    def resolve(self, changes: Mapping[int, Sequence[DataFile]]) -> list[str]:
        """Returns a resolution of each partition, as JSON."""
        store = open_store(self.table)
        found = [self._resolved(store, number, parts) for number, parts in changes.items()]
        return [json.dumps(asdict(one)) for one in found]

    def _resolved(self, store: TableStore, partition: int, parts: Sequence[DataFile]) -> Resolution:
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = ["key", "offset", "is_deleted"]
        changes = pa.concat_tables(read_part(store, part, columns) for part in parts)
        is_keyed = pc.is_valid(changes["key"])
        truncated = pc.max(changes["offset"].filter(pc.invert(is_keyed))).as_py()
        truncated = -1 if truncated is None else int(truncated)
        last = changes.filter(is_keyed).group_by("key").aggregate([("offset", "max")])
        last = last.rename_columns(["key", "offset"]).sort_by("key")
        rows = changes.filter(
            pc.and_(pc.invert(changes["is_deleted"]), pc.greater(changes["offset"], truncated))
        )
        stays = pc.is_in(rows["offset"], last["offset"].combine_chunks())
        name = f"{changes_of(self.directory)}/{{}}-{partition}-{secrets.token_hex(4)}.parquet"
        found = Resolution(
            partition=partition,
            latest=name.format("latest"),
            winners=name.format("winners"),
            truncated=truncated,
        )
        _write(store, found.latest, last)
        _write(store, found.winners, rows.filter(stays).select(["offset"]).sort_by("offset"))
        return found


class LatestChanges:
    """Resolutions as a task reads them, piece by piece."""

    def __init__(self, store: TableStore, resolutions: Mapping[int, Resolution]) -> None:
        self._store = store
        self._resolutions = resolutions
        self._read: dict[tuple[str, tuple[int, ...]], pa.Table] = {}

    def stay(self, part: DataFile, offsets: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Which changes of a file are rows after all."""
        import numpy as np

        path = self._resolutions[part.partition].winners
        winners = self._within(path, "offset", (part.first_offset, part.last_offset))
        return np.isin(offsets, winners["offset"].to_numpy(), assume_unique=True)

    def survive(
        self, part: DataFile, keys: "pa.ChunkedArray", offsets: "np.ndarray[Any, Any]"
    ) -> "np.ndarray[Any, Any]":
        """Which rows of a file of the table have not lost to a change."""
        import numpy as np
        import pyarrow.compute as pc

        found = self._resolutions.get(part.partition)
        if found is None:
            return np.ones(len(offsets), dtype=bool)
        latest = self._within(found.latest, "key", part.keys)
        indices = pc.fill_null(pc.index_in(keys, latest["key"].combine_chunks()), -1).to_numpy()
        # One more, for the keys that have not changed.
        last = np.append(latest["offset"].to_numpy(), -1)[indices]
        return (offsets >= last) & (offsets > found.truncated)  # type: ignore[no-any-return]

    def may_change(self, part: DataFile) -> bool:
        """Whether a file of the table may have rows that lose, by its bounds."""
        found = self._resolutions.get(part.partition)
        if found is None:
            return False
        if part.keys is None or part.first_offset < found.truncated:
            return True
        keys = self._within(found.latest, "key", part.keys)["key"]
        return _has_between(keys, part.keys)

    def _within(self, path: str, column: str, bounds: tuple[Any, Any] | None) -> "pa.Table":
        """The row groups of a file that may have values between the two, which are included."""
        with open_parquet(self._store, path) as opened:
            groups = tuple(_groups(opened, column, bounds))
            if (path, groups) not in self._read:
                self._read = {(path, groups): opened.read_row_groups(list(groups))}
            return self._read[path, groups]


def _groups(opened: Any, column: str, bounds: tuple[Any, Any] | None) -> Iterator[int]:
    for number in range(opened.num_row_groups):
        there = range_of(opened.metadata.row_group(number), column)
        if bounds is None or there is None or (there[0] <= bounds[1] and bounds[0] <= there[1]):
            yield number


def _has_between(keys: "pa.ChunkedArray", bounds: tuple[bytes, bytes]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = (pa.scalar(one, keys.type) for one in bounds)
    within = pc.and_(pc.greater_equal(keys, first), pc.less_equal(keys, last))
    return bool(pc.any(within).as_py())


def _write(store: TableStore, path: str, rows: "pa.Table") -> None:
    import pyarrow.parquet as pq

    with store.output(path) as file:
        pq.write_table(rows, file, compression="zstd", row_group_size=_GROUP_ROWS)
