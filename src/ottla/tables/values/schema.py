"""The schema of decoded values in the notation of Spark SQL: `id bigint, at timestamp`.

Arrow types are the form in memory, this notation the form in the ledger and in options. Every field
may be null. Only types against which JSON and Avro values can be checked exactly are supported;
Spark has more.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

_NAMES = {
    "boolean": "boolean",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
}
_TOKEN = lazy_pattern(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|([<>(),:]))")
_PLAIN_NAME = lazy_pattern(r"[A-Za-z_]\w*")
MAX_DECIMAL_DIGITS = 38
MOST_LEVELS = 32
"""The maximum depth of structs, arrays and maps. Delta Lake's library fails at about 40."""
MOST_COLUMNS = 10_000
"""A type that names others twice, and these others, doubles with each: forty names are billions."""

_OFFERED = (
    "boolean, int, bigint, double, decimal(p,s), string, binary, date, timestamp, "
    "array<...>, map<string,...>, struct<...>"
)


def parse_schema(text: str) -> Any:
    """The Arrow struct type of `name type, ...`; raises `UserError` with the position."""
    return struct_type(_Reader(text).fields(":", None))


def schema_text(struct: Any) -> str:
    """The inverse of `parse_schema`, in canonical spelling."""
    return ", ".join(f"{_name_text(field.name)} {type_text(field.type)}" for field in struct)


def type_text(kind: Any) -> str:
    """An Arrow type in Spark's notation."""
    import pyarrow.types as types

    if types.is_struct(kind):
        inner = ", ".join(f"{_name_text(field.name)}: {type_text(field.type)}" for field in kind)
        return f"struct<{inner}>"
    if types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next(word for word, one in _primitives().items() if one == kind)


def struct_type(fields: Iterable[tuple[str, Any]]) -> Any:
    """A struct of these fields; raises `UserError` for names that differ only in case, for names
    that no column can have, and for more columns than a table has.
    """
    import pyarrow as pa

    listed = list(fields)
    seen: dict[str, str] = {}
    for name, _ in listed:
        if not is_column_name(name):
            raise UserError(f"the schema has a field {name!r}, which no column can be named")
        before = seen.setdefault(name.lower(), name)
        if before is not name:
            raise UserError(f"the schema names field {before} twice (case does not count)")
    found = pa.struct(listed)
    if _column_count(found) > MOST_COLUMNS:
        raise UserError(
            f"the schema has more than {MOST_COLUMNS:,} columns, each type that it names counted "
            "wherever it is used"
        )
    return found


def _column_count(kind: Any) -> int:
    fields = (kind.field(index).type for index in range(kind.num_fields))
    return sum(map(_column_count, fields)) if kind.num_fields else 1


def is_column_name(name: str) -> bool:
    """Whether the name can be written and read by everything that processes the table."""
    try:
        return b"\0" not in name.encode() and bool(name)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON may contain
        return False


def check_levels(kind: Any) -> None:
    """Raises `UserError` for a type that is nested too deeply for a table."""
    inner, levels = [kind], 0
    while inner:
        if levels > MOST_LEVELS:
            raise UserError(
                f"the schema has more than {MOST_LEVELS} levels of structs, arrays and maps"
            )
        inner = [one.field(index).type for one in inner for index in range(one.num_fields)]
        levels += 1


def check_evolution(before: Any, now: Any, place: str = "value") -> None:
    """Checks that a table's schema may change to `now`; raises `UserError` with the field.

    Fields may be added, also within structs, and `int` may become `bigint`. In older files missing
    fields read as null, and `int` reads as `bigint`.
    """
    import pyarrow.types as types

    if types.is_struct(before) and types.is_struct(now):
        for field in before:
            index = now.get_field_index(field.name)
            if index < 0:
                raise _unevolved(f"{place}.{field.name}", "is gone")
            check_evolution(field.type, now.field(index).type, f"{place}.{field.name}")
    elif types.is_list(before) and types.is_list(now):
        check_evolution(before.value_type, now.value_type, f"{place}[]")
    elif types.is_map(before) and types.is_map(now):
        check_evolution(before.item_type, now.item_type, f"{place}{{}}")
    elif before != now and not (types.is_int32(before) and types.is_int64(now)):
        raise _unevolved(place, f"was {type_text(before)} and would be {type_text(now)}")


def _unevolved(place: str, what: str) -> UserError:
    return UserError(
        f"the table's schema cannot change to this one: {place} {what}; only fields may be added, "
        f"and int become bigint (load into another directory)"
    )


@cache
def _primitives() -> dict[str, Any]:
    import pyarrow as pa

    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }


def _name_text(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


@dataclass(slots=True)
class _Reader:
    """A parser of the schema's notation, from left to right."""

    text: str
    position: int = 0

    def fields(self, separator: str, end: str | None) -> list[tuple[str, Any]]:
        """Fields up to the end; `separator` may stand between name and type, as in a struct."""
        found = []
        while True:
            name = self._name()
            if self._peek() == separator:
                self._next()
            found.append((name, self._type()))
            word = self._peek()
            if word == end:
                return found
            self._expect(",")

    def _type(self) -> Any:
        import pyarrow as pa

        word = (self._next() or "").lower()
        if word == "array":
            return pa.list_(self._inner())
        if word == "map":
            return self._map()
        if word == "struct":
            self._expect("<")
            inner = self.fields(":", ">")
            self._expect(">")
            return struct_type(inner)
        if word == "decimal":
            return self._decimal()
        if word not in _NAMES:
            named = repr(word) if word else "its end"
            raise self._fault(f"{named} is not a type; there are {_OFFERED}")
        return _primitives()[_NAMES[word]]

    def _inner(self) -> Any:
        self._expect("<")
        inner = self._type()
        self._expect(">")
        return inner

    def _map(self) -> Any:
        import pyarrow as pa

        self._expect("<")
        self._expect("string")
        self._expect(",")
        items = self._type()
        self._expect(">")
        return pa.map_(pa.string(), items)

    def _decimal(self) -> Any:
        import pyarrow as pa

        self._expect("(")
        precision = self._number()
        self._expect(",")
        scale = self._number()
        self._expect(")")
        if not 1 <= precision <= MAX_DECIMAL_DIGITS or scale > precision:
            raise self._fault(f"there is no decimal({precision},{scale})")
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        word = self._next() or ""
        if not word.isascii() or not word.isdigit():
            raise self._fault(f"{word!r} is not a number")
        return int(word)

    def _name(self) -> str:
        word = self._next()
        if word is None or word in "<>(),:":
            raise self._fault("a field's name is missing")
        return word[1:-1].replace("``", "`") if word.startswith("`") else word

    def _expect(self, wanted: str) -> None:
        word = self._next()
        if word is None or word.lower() != wanted:
            raise self._fault(f"{wanted!r} is missing")

    def _peek(self) -> str | None:
        position = self.position
        word = self._next()
        self.position = position
        return word

    def _next(self) -> str | None:
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            if self.text[self.position :].strip():
                raise self._fault("these characters are not allowed in a schema")
            return None
        self.position = found.end()
        return found[1] or found[2] or found[3]

    def _fault(self, words: str) -> UserError:
        return UserError(
            f"the schema at character {self.position}: {words}; a schema reads like "
            f"'id bigint, at timestamp, lines array<struct<name: string, price: decimal(9,2)>>'"
        )
