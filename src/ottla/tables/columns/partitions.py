"""How a table's files are partitioned: by values of columns, or by what a transform makes of them.

Iceberg has transforms of its own, and readers apply them to queries. In Delta what a transform
makes is a column by itself, whose values are in the names of directories and not in files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.tables.columns.flat import FLAT_NAMES, is_flat, no_such_column, stored_path
from ottla.tables.columns.statistics import leaf_type

if TYPE_CHECKING:
    import pyarrow as pa

TIMESTAMP_COLUMN = "timestamp"
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a null, as in Hive and Spark."""

_ESCAPED_NULL = NULL_DIRECTORY.replace("_", "%5F", 1)
"""That of the text which reads so."""

MOST_WIDTH = 2**31 - 1
_MOST_CHARACTERS = 180
"""Of a value in a directory's name, which has 255 bytes at most."""

_TERM = lazy_pattern(
    r"\s*(?:(?P<transform>[a-z]+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<inner>[^(),]+?)\s*\)"
    r"|(?P<column>[^(),]+?))\s*(?:,|$)"
)


class Transform(Enum):
    """Iceberg's transforms; `HOUR_OF_DAY` is Delta's directory in that of a day."""

    IDENTITY = "identity"
    BUCKET = "bucket"
    TRUNCATE = "truncate"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    HOUR_OF_DAY = "hour_of_day"

    @property
    def is_time(self) -> bool:
        return self in _PATTERNS

    @property
    def has_width(self) -> bool:
        return self in (Transform.BUCKET, Transform.TRUNCATE)


_PATTERNS = {
    Transform.YEAR: "%Y",
    Transform.MONTH: "%Y-%m",
    Transform.DAY: "%Y-%m-%d",
    Transform.HOUR: "%Y-%m-%d-%H",
    Transform.HOUR_OF_DAY: "%H",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """What a file has one value of. `column` is a column, or a field in one (`value.country`)."""

    transform: Transform
    column: str = TIMESTAMP_COLUMN
    width: int = 0
    """The number of buckets, or the size of what is kept; else 0."""
    name: str = ""
    """The name in directories and of the column; empty until the columns are known."""

    @property
    def text(self) -> str:
        """As users write it."""
        if self.transform is Transform.IDENTITY:
            return self.column
        inner = f"{self.width}, {self.column}" if self.transform.has_width else self.column
        return f"{self.transform.value}({inner})"

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.column.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The fields, outermost directory first."""

    fields: tuple[PartitionField, ...]
    is_spec: bool = False
    """Whether they are transforms of the table's format, which are no columns."""

    @classmethod
    def by_time(cls, unit: str, column: str = TIMESTAMP_COLUMN) -> "Partitioning":
        """By `day` or `hour` of a time in UTC."""
        return cls(fields=(PartitionField(transform=Transform(unit), column=column),))

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.fields]

    @property
    def text(self) -> str:
        shown = [one.text for one in self.fields]
        hours = [one for one in self.fields if one.transform is Transform.HOUR_OF_DAY]
        if hours:
            shown = [f"hour({hours[0].column})", *shown[2:]]
        return ", ".join(shown)

    def column_types(self, rows: "pa.Schema") -> dict[str, Any]:
        """The types of the columns that are in directories' names."""
        if self.is_spec:
            return {}
        return {one.name: result_type(one, leaf_type(rows, one.path)) for one in self.fields}


def parse_partitioning(text: str, time_column: str | None = None) -> Partitioning:
    """Parses `day, value.country, bucket(16, value.id)`; raises `UserError`.

    A unit without a column is that of `time_column`, or of the record's time.
    """
    fields = []
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None:
            raise _unknown(text)
        fields.append(_parsed_term(found, text, time_column or TIMESTAMP_COLUMN))
        position = found.end()
    if not fields:
        raise _unknown(text)
    return Partitioning(fields=tuple(fields))


def _parsed_term(found: Any, text: str, time_column: str) -> PartitionField:
    column = found["column"]
    if column is not None:
        if column in ("year", "month", "day", "hour"):
            return PartitionField(transform=Transform(column), column=time_column)
        return PartitionField(transform=Transform.IDENTITY, column=column)
    try:
        transform = Transform(found["transform"])
    except ValueError:
        raise _unknown(text) from None
    width = int(found["width"] or 0)
    is_known = transform is not Transform.HOUR_OF_DAY and transform.has_width == bool(width)
    if not is_known or width > MOST_WIDTH:
        raise _unknown(text)
    return PartitionField(transform=transform, column=found["inner"], width=width)


def _unknown(text: str) -> UserError:
    return UserError(
        f"--partition-by {text!r}: name columns and transforms, such as day, value.country, "
        f"month(value.at), bucket(16, value.id) or truncate(4, value.name)"
    )


def placed(
    asked: Partitioning, rows: "pa.Schema", *, is_spec: bool, names: Sequence[str] | None = None
) -> Partitioning:
    """The partitioning with the names of its fields; raises `UserError` for impossible ones.

    `names` are the table's columns, if they are named otherwise than those of rows.
    """
    columns = rows.names if names is None else names
    fields: list[PartitionField] = []
    for named in asked.fields:
        one = _of_rows(named, rows) if is_flat(columns) else named
        kind = _kind(one, rows)
        if kind is None:
            asked_text = f"--partition-by {named.text}"
            raise no_such_column(asked_text, rows, is_flat=is_flat(columns))
        _check_kind(one, kind)
        if one.transform is Transform.HOUR and not is_spec:
            fields += [
                _named(one, Transform.DAY, "day"),
                _named(one, Transform.HOUR_OF_DAY, "hour"),
            ]
        else:
            fields.append(_named(one, one.transform, _name(one, columns, is_spec=is_spec)))
    lower = [one.name.lower() for one in fields]
    twice = next((one for one in fields if lower.count(one.name.lower()) > 1), None)
    if twice is not None:
        raise UserError(
            f"--partition-by {asked.text}: two directories would be named {twice.name}; leave one "
            f"of them out"
        )
    taken = next((one for one in fields if _is_taken(one, columns, is_spec=is_spec)), None)
    if taken is not None:
        raise UserError(
            f"--partition-by {taken.text}: the table has a column {taken.name} already, with which "
            f"the directory's would clash; partition by another column"
        )
    return Partitioning(fields=tuple(fields), is_spec=is_spec)


def _named(one: PartitionField, transform: Transform, name: str) -> PartitionField:
    return PartitionField(transform=transform, column=one.column, width=one.width, name=name)


def _of_rows(one: PartitionField, rows: "pa.Schema") -> PartitionField:
    """A field that may be named by a column of a flat table."""
    own = {flat: name for name, flat in FLAT_NAMES.items()}
    first, *rest = one.path
    # `day` alone is of the record's time, whatever the values have.
    is_of_value = first in _value_names(rows) and not (
        one.transform.is_time and first == "timestamp"
    )
    is_own = first in own or (first in rows.names and not is_of_value)
    path = [own.get(first, first), *rest] if is_own else []
    return replace(one, column=".".join(path) if path else f"value.{one.column}")


def _value_names(rows: "pa.Schema") -> list[str]:
    import pyarrow.types as types

    kind = rows.field("value").type
    return [field.name for field in kind] if types.is_struct(kind) else []


def _name(one: PartitionField, columns: Sequence[str], *, is_spec: bool) -> str:
    names = one.path[1:] if one.path[0] in ("value", "key", "header") else one.path
    base = "_".join(names or one.path)
    if one.transform is Transform.IDENTITY:
        if is_flat(columns):
            # Programs that rewrite files of Delta leave its columns out of them.
            return base if is_spec else f"{base}_part"
        return "_".join(one.path) if len(one.path) > 1 and base in columns else base
    if one.transform.is_time:
        return f"{base}_{one.transform.value}" if is_spec else one.transform.value
    short = "trunc" if one.transform is Transform.TRUNCATE else "bucket"
    return f"{base}_{short}_{one.width}"


def _is_taken(one: PartitionField, columns: Sequence[str], *, is_spec: bool) -> bool:
    """Whether a column of rows has its name: in Iceberg another one than the field's own."""
    # Programs that rewrite files of Delta leave its columns out of them.
    stored = stored_path(one.path, is_flat=is_flat(columns))
    is_own = is_spec and one.transform is Transform.IDENTITY and stored == (one.name,)
    others = {name.lower() for name in columns}
    return one.name.lower() in others and not is_own


def _kind(one: PartitionField, rows: "pa.Schema") -> Any:
    """The type of its column; `None` if there is no such column."""
    try:
        return leaf_type(rows, one.path)
    except (KeyError, AttributeError, TypeError):
        return None


def _check_kind(one: PartitionField, kind: Any) -> None:
    if not _can_be_of(one.transform, kind):
        wanted = {
            Transform.IDENTITY: "boolean, int, bigint, decimal, date, timestamp or string column",
            Transform.BUCKET: "int, bigint, decimal, date, timestamp, string or binary column",
            Transform.TRUNCATE: "int, bigint, decimal or string column",
            Transform.HOUR: "timestamp column",
        }.get(one.transform, "timestamp or date column")
        raise UserError(
            f"--partition-by {one.text}: it takes a {wanted}, and {one.column} is {kind}; "
            f"{_instead(one, kind)}"
        )


def _instead(one: PartitionField, kind: Any) -> str:
    """What to partition by in place of a column that cannot be taken."""
    import pyarrow.types as types

    if one.transform.is_time:
        return "use timestamp, the record's, or a field of the values' schema (value.at)"
    if types.is_temporal(kind):
        return f"use day({one.column}), or month or year of it"
    return "name a column of such a type, a field of a struct (value.id), or --cast it"


def _can_be_of(transform: Transform, kind: Any) -> bool:
    import pyarrow.types as types

    is_time = types.is_timestamp(kind) or types.is_date32(kind)
    if transform.is_time:
        return bool(types.is_timestamp(kind) if transform is Transform.HOUR else is_time)
    is_number = types.is_int32(kind) or types.is_int64(kind) or types.is_decimal128(kind)
    is_plain = is_number or types.is_string(kind)
    if transform is Transform.IDENTITY:
        return bool(is_plain or is_time or types.is_boolean(kind))
    if transform is Transform.BUCKET:
        return bool(is_plain or is_time or types.is_binary(kind))
    return bool(is_plain)


def result_type(one: PartitionField, source: Any) -> Any:
    """The type of the column that a field's values make."""
    import pyarrow as pa

    if one.transform is Transform.BUCKET:
        return pa.int32()
    return pa.string() if one.transform.is_time else source


def parted(
    rows: "pa.RecordBatch", partitioning: Partitioning
) -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Groups rows by directory (`day=2026-01-31/country=DE`), in order of appearance."""
    import pyarrow.compute as pc

    texts = [
        _directories(rows, one, is_empty_null=not partitioning.is_spec)
        for one in partitioning.fields
    ]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/")
    found = pc.dictionary_encode(joined)
    for index, name in enumerate(found.dictionary.to_pylist()):
        yield name, rows.filter(pc.equal(found.indices, index))


def _directories(rows: "pa.RecordBatch", one: PartitionField, *, is_empty_null: bool) -> Any:
    """The name of each row's directory for one field.

    In Delta's log an empty text is null (`is_empty_null`): some readers take it for a text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(one.path[0])
    column = pc.struct_field(column, list(one.path[1:])) if one.path[1:] else column
    if one.transform.is_time:
        # The times of an hour are one value: few have to be written as text.
        unit = "hour" if one.transform is Transform.HOUR_OF_DAY else one.transform.value
        column = pc.floor_temporal(column, unit=unit)
    found = pc.dictionary_encode(column, null_encoding="encode")
    values = _text_maker(one)(found.dictionary).to_pylist()
    names = [
        f"{one.name}={NULL_DIRECTORY if _is_null(value, is_empty_null) else _escaped(value)}"
        for value in values
    ]
    return pa.array(names, pa.string()).take(found.indices)


def _text_maker(one: PartitionField) -> Callable[[Any], Any]:
    """What makes texts of a column's values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    match one.transform:
        case Transform.IDENTITY:
            return _texts
        case Transform.BUCKET:
            return lambda values: pa.array(
                [None if each is None else str(each) for each in _buckets(values, one.width)],
                pa.string(),
            )
        case Transform.TRUNCATE:
            return lambda values: _truncated(values, one.width)
    pattern = _PATTERNS[one.transform]
    return lambda values: pc.strftime(values, pattern)


def _texts(values: Any) -> Any:
    """Values as in Delta's log: times with their zone, and numbers without an exponent."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_timestamp(values.type):
        return pc.strftime(values, "%Y-%m-%dT%H:%M:%SZ")
    if types.is_decimal128(values.type):
        plain = [None if one is None else f"{one:f}" for one in values.to_pylist()]
        return pa.array(plain, pa.string())
    return values.cast(pa.string())


def _unscaled(values: Any) -> list[int | None]:
    """The digits of decimals as whole numbers."""
    import pyarrow as pa

    whole = values.view(pa.decimal128(values.type.precision, 0)).to_pylist()
    return [None if one is None else int(one) for one in whole]


def _truncated(values: Any, width: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    kind = values.type
    if types.is_string(kind):
        return pc.utf8_slice_codeunits(values, 0, width)
    is_decimal = types.is_decimal128(kind)
    numbers = _unscaled(values) if is_decimal else values.to_pylist()
    wide = [None if one is None else one - one % width for one in numbers]
    least = 1 - 10**kind.precision if is_decimal else -1 << (kind.bit_width - 1)
    for one in wide:
        if one is not None and one < least:
            raise UserError(
                f"a value to partition by, of {kind}, has no multiple of {width:,} below it "
                f"that the column has room for ({one:,}); partition by bucket(16, ...) of it"
            )
    if is_decimal:
        whole = pa.array(wide, pa.decimal128(kind.precision, 0))
        return _texts(whole.view(kind))
    return pa.array([None if one is None else str(one) for one in wide], pa.string())


def _buckets(values: Any, count: int) -> list[int | None]:
    """Iceberg's buckets: of a murmur3 hash of bytes, or of a number's eight bytes.

    Of a decimal these are the fewest that its digits need, the highest first.
    """
    import pyarrow as pa
    import pyarrow.types as types

    with needed_for("--partition-by bucket(...)"):
        import mmh3
    kind = values.type
    if types.is_string(kind) or types.is_binary(kind):
        plain = values.cast(pa.binary()).to_pylist()
    elif types.is_decimal128(kind):
        plain = [
            None if one is None else one.to_bytes(_size(one), "big", signed=True)
            for one in _unscaled(values)
        ]
    else:
        if types.is_date32(kind):
            values = values.cast(pa.int32())
        numbers = values.cast(pa.int64()).to_pylist()
        plain = [None if one is None else one.to_bytes(8, "little", signed=True) for one in numbers]
    return [None if one is None else (mmh3.hash(one) & MOST_WIDTH) % count for one in plain]


def _size(number: int) -> int:
    """The bytes of a number with its sign."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _is_null(value: str | None, is_empty_null: bool) -> bool:
    return value is None or (is_empty_null and not value)


def _escaped(value: str) -> str:
    """A value as part of a directory's name, as in Hive and Spark."""
    found = quote(value, safe="") if value != NULL_DIRECTORY else _ESCAPED_NULL
    if len(found) > _MOST_CHARACTERS:
        raise UserError(
            f"a value to partition by has {len(value):,} characters ({value[:20]}...), which no "
            f"directory's name has room for; partition by truncate(16, ...) of it"
        )
    return found


def partitioning_fields(partitioning: Partitioning) -> dict[str, Any]:
    """The partitioning as JSON fields, as in the ledger."""
    return {
        "is_spec": partitioning.is_spec,
        "fields": [
            {
                "transform": one.transform.value,
                "column": one.column,
                "width": one.width,
                "name": one.name,
            }
            for one in partitioning.fields
        ],
    }


def parse_partitioning_fields(fields: Mapping[str, Any]) -> Partitioning:
    """The inverse; raises `ValueError`, `TypeError` or `KeyError`.

    Tables before had a unit of time instead, whose directories are columns.
    """
    if "unit" in fields:
        column = str(fields["column"])
        units = {"day": Transform.DAY, "hour": Transform.HOUR_OF_DAY}
        names = ["day"] if fields["unit"] == "day" else ["day", "hour"]
        return Partitioning(
            fields=tuple(
                PartitionField(transform=units[name], column=column, name=name) for name in names
            )
        )
    return Partitioning(
        fields=tuple(
            PartitionField(
                transform=Transform(one["transform"]),
                column=str(one["column"]),
                width=int(one["width"]),
                name=str(one["name"]),
            )
            for one in fields["fields"]
        ),
        is_spec=bool(fields["is_spec"]),
    )
