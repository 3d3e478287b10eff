"""What all rows of a file fulfil, as Arrow's datasets take it: they skip files by it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.tables.columns.statistics import LeafStatistics, Path, leaf_paths, leaf_type

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


def guarantee(
    schema: "pa.Schema",
    values: Mapping[str, str | None],
    statistics: Mapping[Path, LeafStatistics],
) -> "pc.Expression":
    """For a file with these values in its directory's name, and these statistics."""
    import pyarrow.compute as pc

    found = pc.scalar(True)
    for name, value in values.items():
        if name not in schema.names:
            continue  # It is a transform, and no column.
        column = pc.field(name)
        kind = schema.field(name).type
        found &= column.is_null() if value is None else column == _scalar(value, kind)
    there = set(leaf_paths(schema))
    for path, known in statistics.items():
        if path in there and path[0] not in values:
            kind = leaf_type(schema, path)
            found &= _of_column(pc.field(*path), kind, known)
    return found


def _of_column(column: Any, kind: Any, known: LeafStatistics) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if known.bounds is None:
        return pc.scalar(True)
    lowest, highest = (pa.scalar(one, kind) for one in known.bounds)
    if not known.null_count:
        return (column >= lowest) & (column <= highest)
    return ((column >= lowest) | column.is_null()) & ((column <= highest) | column.is_null())


def _scalar(value: str, kind: Any) -> Any:
    import pyarrow as pa

    return pa.scalar(value).cast(kind)
