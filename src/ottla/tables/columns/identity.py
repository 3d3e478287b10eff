"""Which rows of a table replace each other, and which of them is the last.

A row's key are the bytes of its record's key, within a partition, or the values of columns, in the
whole table. Of the rows of a key the one of the highest rank is the last: by offset, or by the
values of a version column, then by offset, then by partition.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.columns.flat import FLAT_NAMES, no_such_column, stored_path
from ottla.tables.columns.sortable import fixed_bytes, is_exact, is_sortable, sortable
from ottla.tables.columns.statistics import Path

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Leaf = Callable[[Any, Path], "pa.Array"]
"""Finds a leaf column in rows."""

WHOLE_TABLE = -1
"""The scope of keys that are the same in all partitions."""

_PLACE = [("offset", ">u8"), ("partition", ">u4"), ("is_deleted", "u1")]
"""The end of a rank: offset, partition, and whether the record deletes the row."""

_PLACE_SIZE = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """How rows replace each other, as users name it."""

    key: tuple[str, ...] = ()
    """Columns such as `value.id`; empty for the bytes of the record's key."""
    version: str = ""
    """A column by which records are ordered; empty for their offsets."""
    delete_when: str = ""
    """A condition of records that delete their row, besides those without a value."""
    is_history: bool = False
    """Whether the table has a row for each record, with the time of its validity, instead of the
    last one of each key.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """An `Upsert` with the paths of columns in rows."""

    key: tuple[Path, ...] = ()
    version: Path | None = None
    history: "pa.DataType | None" = None
    """Of a table with history the type of its times of validity."""

    @property
    def remembers_deletes(self) -> bool:
        """Whether deleted keys are kept, as a late record might bring the row back."""
        return not self.is_by_offset

    @property
    def is_by_offset(self) -> bool:
        """Whether a later record always wins, and ranks are `offset * 2 + is_deleted`."""
        return not self.key and self.version is None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The columns of rows that `keys` and `ranks` need."""
        versions = () if self.version is None else (self.version,)
        return tuple(
            dict.fromkeys((*(self.key or (("key",),)), *versions, ("partition",), ("offset",)))
        )

    def scope(self, partition: int) -> int:
        """The rows among which keys are compared: a partition's, or the whole table's."""
        return WHOLE_TABLE if self.key else partition

    def keys(self, rows: Any, leaf: "Leaf | None" = None) -> "pa.Array":
        """The keys of rows, as bytes; null where a column of the key is."""
        find = leaf or leaf_of
        if not self.key:
            return find(rows, ("key",))
        return sortable([find(rows, path) for path in self.key])

    def ranks(self, rows: Any, is_deleted: "np.ndarray[Any, Any] | None" = None) -> "pa.Array":
        """The ranks of rows, or of changes; null where the version is."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        offsets = rows["offset"].to_numpy()
        deleted = np.zeros(len(offsets), bool) if is_deleted is None else is_deleted
        if self.is_by_offset:
            return pa.array(offsets * 2 + deleted)
        place = np.empty(len(offsets), _PLACE)
        place["offset"], place["partition"] = offsets, rows["partition"].to_numpy()
        place["is_deleted"] = deleted
        if self.version is None:
            return fixed_bytes(place)
        versions = sortable([leaf_of(rows, self.version)])
        return pc.binary_join_element_wise(versions, fixed_bytes(place), b"")

    def valid_from(self, rows: Any) -> "pa.Array":
        """The versions of rows of a table with history."""
        assert self.version is not None
        return leaf_of(rows, self.version).cast(self.history)

    def as_version(self, numbers: "pa.Array") -> "pa.Array":
        """Whole numbers, as of `versions_of`, as versions."""
        import pyarrow as pa
        import pyarrow.types as types

        is_date = types.is_date32(self.history)
        return (numbers.cast(pa.int32()) if is_date else numbers).cast(self.history)


def numbers_of(versions: "pa.Array") -> "pa.Array":
    """The inverse of `RowOrder.as_version`."""
    import pyarrow as pa
    import pyarrow.types as types

    is_date = types.is_date32(versions.type)
    return (versions.cast(pa.int32()) if is_date else versions).cast(pa.int64())


def versions_of(ranks: "pa.Array") -> "np.ndarray[Any, Any]":
    """The versions of ranks of a table with history, as whole numbers: times in microseconds, and
    dates in days.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.binary_slice(ranks, 1, 9).cast(pa.binary(8))
    _, data = numbers.buffers()
    found = np.frombuffer(data or b"", ">u8", count=numbers.offset + len(numbers))
    return (found[numbers.offset :].astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)


def version_of(rank: bytes, order: RowOrder) -> Any:
    """The version of a rank of a table with history."""
    import pyarrow as pa

    return order.as_version(pa.array(versions_of(pa.array([rank]))))[0].as_py()


def places_of(ranks: Any) -> "np.ndarray[Any, Any]":
    """Offset, partition and `is_deleted` of ranks that are bytes, as a structured array."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.binary_slice(ranks, -_PLACE_SIZE).cast(pa.binary(_PLACE_SIZE))
    if isinstance(ends, pa.ChunkedArray):
        ends = ends.combine_chunks()
    _, data = ends.buffers()
    found = np.frombuffer(data or b"", np.dtype(_PLACE), count=ends.offset + len(ends))
    return found[ends.offset :]


def leaf_of(rows: Any, path: Path) -> "pa.Array":
    """A leaf of rows, which have it as a column of its own, or in a struct."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name = ".".join(path)
    if name in rows.schema.names:
        found = rows.column(name)
    else:
        found = rows.column(path[0])
        for inner in path[1:]:
            found = pc.struct_field(found, [found.type.get_field_index(inner)])
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def row_order(upsert: Upsert, rows: "pa.Schema", *, is_flat: bool) -> RowOrder:
    """The order with the paths of columns; raises `UserError` for columns that rows lack, or that
    no row can be told by.
    """
    key = tuple(_path(one, rows, "--upsert-by", is_flat=is_flat) for one in upsert.key)
    for path in key:
        kind = _kind(rows, path)
        if kind is None or not is_exact(kind):
            raise UserError(
                f"--upsert-by {'.'.join(path)}: rows cannot be told apart by a {kind}; name "
                f"columns of texts, whole numbers, times or decimals"
            )
    time = "_timestamp" if is_flat else "timestamp"
    named = upsert.version or (time if upsert.is_history else "")
    if not named:
        return RowOrder(key=key)
    version = _path(named, rows, "--version-by", is_flat=is_flat)
    if not is_sortable(_kind(rows, version)):
        raise UserError(
            f"--version-by {upsert.version}: a {_kind(rows, version)} has no order; name a column "
            f"of numbers, times or texts"
        )
    history = _history_type(_kind(rows, version)) if upsert.is_history else None
    if upsert.is_history and history is None:
        raise UserError(
            f"--history: rows are valid from one version to the next, and a {_kind(rows, version)} "
            f"is none: name a column of times, dates or whole numbers with --version-by"
        )
    return RowOrder(key=key, version=version, history=history)


def _history_type(kind: "pa.DataType") -> "pa.DataType | None":
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_integer(kind):
        return pa.int64()  # An int of the table may become a bigint.
    return kind if types.is_timestamp(kind) or types.is_date32(kind) else None


def _path(text: str, rows: "pa.Schema", option: str, *, is_flat: bool) -> Path:
    path = tuple(text.split("."))
    candidates = (_own_path(path), path, ("value", *path)) if is_flat else (path,)
    found = [one for one in candidates if one and _kind(rows, one) is not None]
    if len(found) > 1:
        # One of the two may come later: what rows are told apart by must not change then.
        raise UserError(
            f"{option} {text}: the record and its value have such a column; write "
            f"{'.'.join(stored_path(found[0], is_flat=True))} or {'.'.join(found[1])}, or --rename "
            f"that of the value"
        )
    if found:
        return found[0]
    raise no_such_column(f"{option} {text}", rows, is_flat=is_flat)


def _own_path(path: Path) -> Path | None:
    """The path in rows of a record's own column in a flat table, `_timestamp`."""
    own = {flat: name for name, flat in FLAT_NAMES.items()}
    return (own[path[0]], *path[1:]) if path[0] in own else None


def _kind(rows: "pa.Schema", path: Path) -> Any:
    import pyarrow.types as types

    if path[0] not in rows.names:
        return None
    kind = rows.field(path[0]).type
    for name in path[1:]:
        if not types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind
