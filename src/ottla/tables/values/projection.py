"""Which fields of decoded values become columns: selected, renamed, and cast to other types."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.values.decoder import Decoded, ValueDecoder
from ottla.tables.values.json_rest import RESCUED_COLUMN
from ottla.tables.values.json_times import as_times
from ottla.tables.values.schema import parse_schema, schema_text, struct_type, type_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """`select` are fields, with dots for inner ones; empty selects all, also those added later.

    `rename` are pairs of a field and its new name. `cast` names columns and their types in Spark's
    notation.
    """

    select: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    cast: str = ""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: where its values are, its name, and the type that they are cast to, if any."""

    path: tuple[str, ...]
    name: str
    source: Any
    kind: Any


class ProjectedDecoder:
    """A decoder of values with other fields; see `ValueDecoder`."""

    def __init__(self, inner: ValueDecoder, projection: Projection) -> None:
        """Raises `UserError` if a field is missing, named twice, or cannot be cast so."""
        self._inner = inner
        self._columns = _columns(inner.type, projection)

    @property
    def type(self) -> Any:
        return struct_type((one.name, one.kind) for one in self._columns)

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        found = self._inner.decode(values, headers)
        faults = dict(found.faults)
        fields = dict(zip((one.name for one in found.rows.type), found.rows.flatten(), strict=True))
        columns = []
        for one in self._columns:
            column, wrong = _cast(_field(fields[one.path[0]], one.path[1:]), one)
            columns.append(column)
            for index, fault in wrong.items():
                faults.setdefault(index, fault)
        is_null = found.rows.is_null()
        rows = pa.StructArray.from_arrays(columns, fields=list(self.type), mask=is_null)
        return Decoded(rows, faults, found.truncations)


def _columns(kind: Any, projection: Projection) -> list[_Column]:
    import pyarrow.types as types

    if not types.is_struct(kind):
        raise UserError("--select, --rename and --cast are for fields of decoded values")
    names = [field.name for field in kind]
    paths: list[tuple[str, ...]] = [(name,) for name in names]
    if projection.select:
        # A field may have a dot in its name.
        paths = [(one,) if one in names else tuple(one.split(".")) for one in projection.select]
        paths += [(RESCUED_COLUMN,)] if RESCUED_COLUMN in names else []
    renamed = dict(projection.rename)
    casts = {one.name: one.type for one in parse_schema(projection.cast)} if projection.cast else {}
    found = []
    for path in dict.fromkeys(paths):
        name = renamed.pop(".".join(path), path[-1])
        source = _type_at(kind, path)
        found.append(_Column(path, name, source, casts.pop(name, source)))
    for option, left in (("--rename", renamed), ("--cast", casts)):
        for name in reversed(left):  # What a load asks for comes after what earlier loads did.
            there = ", ".join(one.name for one in found)
            raise UserError(f"{option} {name}: there is no such column; there are {there}")
    _check_names(found)
    for one in found:
        _check_cast(one)
    return found


def _check_names(columns: Sequence[_Column]) -> None:
    by_name: dict[str, _Column] = {}
    for one in columns:
        other = by_name.setdefault(one.name.lower(), one)
        if other is not one:
            first, second = ".".join(other.path), ".".join(one.path)
            raise UserError(
                f"two columns would be named {one.name}: {first} and {second}; rename one of them: "
                f"--rename {second}={second.replace('.', '_')}_2"
            )


def _check_cast(one: _Column) -> None:
    import pyarrow as pa

    if one.kind == one.source:
        return
    try:
        _as_type(pa.array([], one.source), one.kind)
    except pa.ArrowNotImplementedError as error:
        raise UserError(
            f"--cast {one.name} {type_text(one.kind)}: {type_text(one.source)} cannot be cast so"
        ) from error


def _type_at(kind: Any, path: Sequence[str]) -> Any:
    import pyarrow.types as types

    for name in path:
        if not types.is_struct(kind) or kind.get_field_index(name) < 0:
            names = [one.name for one in kind] if types.is_struct(kind) else []
            there = f"there are {', '.join(names)}" if names else "what it is in has no fields"
            raise UserError(
                f"--select {'.'.join(path)}: there is no field {name or repr(name)}; {there}"
            )
        kind = kind.field(name).type
    return kind


def _field(rows: Any, path: Sequence[str]) -> Any:
    import pyarrow.compute as pc

    for name in path:
        rows = pc.struct_field(rows, [rows.type.get_field_index(name)])
    return rows


def _cast(column: Any, one: _Column) -> tuple[Any, Mapping[int, str]]:
    """The column in its type, with nulls and faults where a value has none in it."""
    import pyarrow as pa

    if one.kind == one.source:
        return column, {}
    wrong: dict[int, str] = {}
    pieces = list(_cast_pieces(column, one, 0, wrong.__setitem__))
    return (pa.concat_arrays(pieces) if pieces else pa.nulls(0, one.kind)), wrong


def _cast_pieces(
    column: Any, one: _Column, start: int, on_fault: Callable[[int, str], None]
) -> Iterator[Any]:
    """Casts halves where the whole has a value that cannot be cast."""
    import pyarrow as pa

    try:
        yield _as_type(column, one.kind)
    except pa.ArrowInvalid as error:
        if len(column) > 1:
            half = len(column) // 2
            yield from _cast_pieces(column.slice(0, half), one, start, on_fault)
            yield from _cast_pieces(column.slice(half), one, start + half, on_fault)
        else:
            on_fault(
                start, f"{'.'.join(('value', *one.path))} is no {type_text(one.kind)}: {error}"
            )
            yield pa.nulls(1, one.kind)


def _as_type(column: Any, kind: Any) -> Any:
    """The column in another type; raises `pyarrow.ArrowInvalid` where a value has none in it."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_decimal(kind):
        if types.is_integer(column.type):
            # Arrow asks for the digits that the type may have, not for those of the values.
            column = column.cast(pa.decimal128(19, 0))
        elif types.is_floating(column.type):
            # Arrow rounds numbers; of texts it refuses digits that have no room.
            column = column.cast(pa.string())
    if types.is_timestamp(kind) and types.is_string(column.type):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return as_times(column, kind)  # Times of more digits, as JSON's own are read.
    return column.cast(kind)


def continued(has: Projection | None, asked: Projection | None) -> Projection | None:
    """What a later load asks for, with what the table has already of the same fields."""
    if has is None or asked is None:
        return asked or has
    select = asked.select or has.select
    before = {old: new for old, new in has.rename if not select or old in select}
    rename = {**before, **dict(asked.rename)}
    casts = {one.name: one.type for one in parse_schema(has.cast)} if has.cast else {}
    if select:
        names = {rename.get(one, one.rpartition(".")[2]) for one in select}
        casts = {name: kind for name, kind in casts.items() if name in names}
    casts |= {one.name: one.type for one in parse_schema(asked.cast)} if asked.cast else {}
    return Projection(
        select=select, rename=tuple(rename.items()), cast=schema_text(struct_type(casts.items()))
    )


def projection_fields(projection: Projection | None) -> dict[str, Any] | None:
    """The projection as JSON fields, as in the ledger."""
    if projection is None:
        return None
    return {
        "select": list(projection.select),
        "rename": [list(pair) for pair in projection.rename],
        "cast": projection.cast,
    }


def parse_projection(fields: Mapping[str, Any] | None) -> Projection | None:
    """The inverse; raises `ValueError`, `TypeError` or `KeyError`."""
    if fields is None:
        return None
    return Projection(
        select=tuple(map(str, fields["select"])),
        rename=tuple((str(old), str(new)) for old, new in fields["rename"]),
        cast=str(fields["cast"]),
    )
