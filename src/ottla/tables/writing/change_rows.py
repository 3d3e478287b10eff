"""What a merge needs to know of each record: its key, its rank, and whether it deletes the row.

A record deletes its row if it has no value, or by a condition. Without a value it has no columns of
one either: the record's key then has to name the row, by fields of the same names.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.tables.columns.identity import RowOrder, leaf_of
from ottla.tables.columns.statistics import Path

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

IS_DELETED, MERGE_KEY, RANK = "is_deleted", "merge_key", "rank"
CHANGE_COLUMNS = (IS_DELETED, MERGE_KEY, RANK)
"""The columns of changes that rows do not have."""

Deletes = Callable[["pa.RecordBatch"], "np.ndarray[Any, Any]"]
"""Of rows, which of them are deletes, as a mask. It can be pickled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """`columns` are those of `CHANGE_COLUMNS`; `faults` are of records that are none, by index."""

    columns: Mapping[str, Any]
    faults: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMaker:
    """Makes changes of rows. `deletes` is the condition, if there is one."""

    order: RowOrder
    deletes: Deletes | None = None

    def columns(self, rows: "pa.Schema") -> "pa.Schema":
        """The columns of changes; a change without a key is a truncation."""
        import pyarrow as pa

        own = [pa.field(IS_DELETED, pa.bool_())]
        if not self.order.is_by_offset:
            own += [pa.field(MERGE_KEY, pa.binary()), pa.field(RANK, pa.binary())]
        return pa.schema([*rows, *own])

    def changes(
        self,
        rows: "pa.RecordBatch",
        truncations: frozenset[int],
        partition_count: int,
        gone: "np.ndarray[Any, Any] | None" = None,
    ) -> Changes:
        """The changes of rows, of which some may have no value; `gone` is a mask of those that are
        to delete their row in any case.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        is_null = rows.column("value").is_null().to_numpy(zero_copy_only=False)
        is_deleted = is_null if self.deletes is None else is_null | self.deletes(rows)
        is_deleted = is_deleted if gone is None else is_deleted | gone
        keys = self.order.keys(rows, _named_leaf if is_null.any() else leaf_of)
        ranks = self.order.ranks(rows, is_deleted)
        lacks = pc.or_(keys.is_null(), ranks.is_null()).to_numpy(zero_copy_only=False)
        faults = {}
        for index in np.flatnonzero(lacks).tolist():
            if index in truncations:
                fault = self._truncation_fault(partition_count)
            elif keys[index].is_valid:
                fault = self._version_fault(is_null[index])
            else:
                fault = self._key_fault(rows.slice(index, 1), is_null[index])
            if fault is not None:
                faults[index] = fault
        columns = {IS_DELETED: pa.array(is_deleted), MERGE_KEY: keys, RANK: ranks}
        return Changes(columns=columns, faults=faults)

    def _truncation_fault(self, partition_count: int) -> str | None:
        if self.order.version is not None:
            return "it reports a truncation of the source, which has no version (--version-by)"
        others = partition_count - 1
        if others:
            return (
                f"it reports a truncation of the source; changes in the other {others} partitions "
                f"may precede or follow it"
            )
        return None

    def _version_fault(self, is_null: bool) -> str:
        assert self.order.version is not None
        name = ".".join(self.order.version)
        if is_null and self.order.version[0] == "value":
            return f"it deletes its row without a value, and so without {name} (--version-by)"
        return f"{name} is null, and records are ordered by it (--version-by)"

    def _key_fault(self, row: "pa.RecordBatch", is_null: bool) -> str:
        if not self.order.key:
            return "it has no key, and rows are updated by key"
        leaf = _named_leaf if is_null else leaf_of
        nulls = [path for path in self.order.key if not leaf(row, path)[0].is_valid]
        names = ", ".join(".".join(path) for path in nulls)
        if not is_null:
            return f"{names} is null, and rows are updated by it (--upsert-by)"
        fields = ", ".join(path[-1] for path in nulls)
        return (
            f"it has no value, and so no {names} to delete a row by; a key with {fields} would "
            f"name the row (--decode-key json, avro or protobuf)"
        )


def _named_leaf(rows: "pa.RecordBatch", path: Path) -> "pa.Array":
    """A leaf of rows: of those without a value, the field of their key with its name."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    found = leaf_of(rows, path)
    key = rows.schema.field("key").type
    if path[0] != "value" or not types.is_struct(key) or key.get_field_index(path[-1]) < 0:
        return found
    named = leaf_of(rows, ("key", path[-1]))
    if types.is_integer(named.type) and types.is_integer(found.type):
        named, found = named.cast(pa.int64()), found.cast(pa.int64())
    if named.type != found.type:
        return found
    return pc.if_else(rows.column("value").is_null(), named, found)
