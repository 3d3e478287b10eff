"""What a file's entry in a table's log says of its columns: bounds and counts of nulls.

Readers skip a file whose bounds exclude all that a query asks for. Columns in lists and maps have
no bounds. Of a column with NaN only nulls are counted: Parquet's bounds leave NaN out, and engines
differ in whether it is greater than any number.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

LEAVES = 32
"""The number of leaf columns with statistics unless some are named, as in Delta's writers."""

ALWAYS = ("partition", "offset", "timestamp")
"""Columns with statistics whatever is named."""

NAN_COLUMNS = b"ottla.nan"
"""The key in a file's metadata of the leaf columns that have NaN, as a JSON list of paths."""

Path = tuple[str, ...]
"""A leaf column: the names of its fields from the outermost to the innermost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafStatistics:
    """`bounds` are inclusive, in Python's types; `None` if unknown, or if all values are null."""

    null_count: int
    bounds: tuple[Any, Any] | None = None
    has_nan: bool = False
    """Whether some values are NaN, so that there are no bounds."""


def leaf_paths(schema: "pa.Schema") -> Iterator[Path]:
    """The leaf columns that are not in lists or maps, in order."""
    return (path for path, _ in _numbered_leaves(schema))


def is_named(path: Path, named: Sequence[str]) -> bool:
    """Whether `value.id`, or a struct that has it, is named."""
    return any(".".join(path[:count]) in named for count in range(1, len(path) + 1))


def file_statistics(footer: Any, named: Sequence[str] = ()) -> dict[Path, LeafStatistics]:
    """The statistics of a file, of the named columns or the first ones."""
    leaves = list(_numbered_leaves(footer.schema.to_arrow_schema()))
    with_nan = _nan_columns(footer)
    is_flat = ("_offset",) in (path for path, _ in leaves)
    always = [(f"_{name}" if is_flat else name,) for name in ALWAYS]
    chosen = [
        (path, column)
        for number, (path, column) in enumerate(leaves)
        if path in always or (is_named(path, named) if named else number < LEAVES)
    ]
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = {}
    for path, column in chosen:
        each = [group.column(column).statistics for group in groups]
        known = _joined(each, has_nan=path in with_nan)
        if known is not None:
            found[path] = known
    return found


def _joined(each: Sequence[Any], *, has_nan: bool) -> LeafStatistics | None:
    """Combines the statistics of row groups; `None` if one has none."""
    if not all(one is not None and one.has_null_count for one in each):
        return None
    null_count = sum(one.null_count for one in each)
    with_values = [one for one in each if one.num_values]
    if has_nan or not with_values or not all(one.has_min_max for one in with_values):
        return LeafStatistics(null_count=null_count, has_nan=has_nan)
    lowest = min(one.min for one in with_values)
    return LeafStatistics(
        null_count=null_count, bounds=(lowest, max(one.max for one in with_values))
    )


def nan_paths(rows: "pa.RecordBatch") -> set[Path]:
    """The leaf columns of rows that have NaN."""
    return {path for path in floating_paths(rows.schema) if _has_nan(rows, path)}


def floating_paths(schema: "pa.Schema") -> list[Path]:
    import pyarrow.types as types

    return [path for path in leaf_paths(schema) if types.is_floating(leaf_type(schema, path))]


def leaf_type(schema: "pa.Schema", path: Path) -> Any:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def nan_metadata(paths: set[Path]) -> dict[bytes, bytes]:
    """The metadata of a file whose columns `paths` have NaN."""
    return {NAN_COLUMNS: json.dumps(sorted(paths)).encode()} if paths else {}


def _nan_columns(footer: Any) -> set[Path]:
    given = (footer.metadata or {}).get(NAN_COLUMNS)
    return set() if given is None else {tuple(path) for path in json.loads(given)}


def _has_nan(rows: "pa.RecordBatch", path: Path) -> bool:
    import pyarrow.compute as pc

    column = rows.column(path[0])
    column = pc.struct_field(column, list(path[1:])) if path[1:] else column
    return bool(pc.any(pc.is_nan(column)).as_py())


def _numbered_leaves(schema: "pa.Schema") -> Iterator[tuple[Path, int]]:
    """Leaf columns with their number among all leaf columns of the file."""
    number = 0
    for field in schema:
        for path in _paths((field.name,), field.type):
            if path is not None:
                yield path, number
            number += 1


def _paths(path: Path, kind: Any) -> Iterator[Path | None]:
    """The leaf columns of a type, in Parquet's order; `None` for one in a list or map."""
    import pyarrow.types as types

    if types.is_struct(kind):
        for field in kind:
            yield from _paths((*path, field.name), field.type)
    elif types.is_map(kind):
        for part in (kind.key_type, kind.item_type):
            yield from (None for _ in _paths(path, part))
    elif types.is_nested(kind):
        yield from (None for _ in _paths(path, kind.value_type))
    else:
        yield path


def shortened(bounds: tuple[str, str], size: int) -> tuple[str, str] | None:
    """Bounds of at most `size` characters, the higher one rounded up; `None` if that fails."""
    lowest, highest = bounds[0][:size], bounds[1]
    if len(highest) <= size:
        return lowest, highest
    last = 0x10FFFF
    prefix = highest[:size].rstrip(chr(last))
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    # Surrogates are no characters.
    following = 0xE000 if following == 0xD800 else following
    return lowest, prefix[:-1] + chr(following)


def shortened_bytes(bounds: tuple[bytes, bytes], size: int) -> tuple[bytes, bytes] | None:
    """Like `shortened`, of bytes."""
    first, last = bounds
    if len(last) > size:
        # the smallest bytes above all that begin with the prefix
        prefix = last[:size].rstrip(b"\xff")
        if not prefix:
            return None
        last = prefix[:-1] + bytes([prefix[-1] + 1])
    return first[:size], last


def nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    """Values by path as objects in objects, as in Delta's statistics."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        inner = found
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return found
