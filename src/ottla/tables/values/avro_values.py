"""Decodes Avro values with fastavro: one binary datum per value, without trailing bytes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.tables.values.decoder import Decoded, require
from ottla.tables.values.schema import struct_type

_LOGICAL = frozenset({"date", "timestamp-millis", "timestamp-micros", "decimal"})
"""Logical types with an Arrow type; others are read as their underlying types, as Avro specifies
for unknown logical types.
"""

NO_REFERENCES: Mapping[str, str] = MappingProxyType({})

# Errors of fastavro and Arrow for bytes that do not match the schema.
_BROKEN = (EOFError, IndexError, KeyError, ValueError, OverflowError, TypeError, ArithmeticError)


class AvroDecoder:
    """See `ValueDecoder`; `schema` is Avro's JSON."""

    def __init__(self, schema: str, references: Mapping[str, str] = NO_REFERENCES) -> None:
        self._schema = parse_avro(schema, references)
        types = _Types()
        for text in references.values():
            types.of(_content(text), "value")
        self._type = types.of(_content(schema), "value")
        self._read: Callable[..., Any] = _fastavro().schemaless_reader

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        rows: list[Any] = []
        for index, (row, fault) in enumerate(self._all(values.to_pylist(), headers)):
            if fault is not None:
                faults[index] = fault
            rows.append(row)
        try:
            return Decoded(pa.array(rows, self._type), faults)
        except (pa.ArrowException, *_BROKEN):
            return Decoded(self._one_by_one(rows, faults), faults)

    def _all(
        self, values: Sequence[bytes | None], headers: Any
    ) -> Iterator[tuple[Any, str | None]]:
        """For each value its row, or its fault."""
        for value in values:
            yield (None, None) if value is None else self._one(value, self._schema)

    def _one(self, value: bytes, written: Any) -> tuple[Any, str | None]:
        """Reads a value written with schema `written`, in the fields of this decoder's schema."""
        stream = BytesIO(value)
        try:
            if written is self._schema:
                row = self._read(stream, written)
            else:
                row = self._read(stream, written, self._schema)
        except _BROKEN as error:
            return None, f"it does not match the Avro schema: {_words(error)}"
        except _fastavro().read.SchemaResolutionError as error:
            return None, f"its schema does not match the table's: {_words(error)}"
        if stream.tell() != len(value):
            return None, f"{len(value) - stream.tell()} bytes follow its Avro datum"
        return row, None

    def _one_by_one(self, rows: list[Any], faults: dict[int, str]) -> Any:
        """Converts rows one by one if one has no Arrow representation, such as a date in the year
        10000.
        """
        import pyarrow as pa

        sound = []
        for index, row in enumerate(rows):
            try:
                pa.array([row], self._type)
                sound.append(row)
            except (pa.ArrowException, *_BROKEN) as error:
                faults[index] = f"it cannot be stored: {_words(error)}"
                sound.append(None)
        return pa.array(sound, self._type)


class _Types:
    """The Arrow types of Avro types; collects the named types that a schema defines."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()

    def of(self, schema: Any, place: str) -> Any:
        import pyarrow as pa

        match schema:
            case str():
                return self._name(schema, place)
            case list():
                kinds = [one for one in schema if one != "null"]
                require(len(kinds) == 1, f"{place}: only unions of null and one type can be loaded")
                return self.of(kinds[0], place)
            case {"logicalType": logical, **rest}:
                return _logical(logical, rest, place)
            case {"type": "record", "name": name, "fields": fields}:
                return self._record(name, fields, place)
            case {"type": "array", "items": items}:
                return pa.list_(self.of(items, f"{place}[]"))
            case {"type": "map", "values": values}:
                return pa.map_(pa.string(), self.of(values, f"{place}{{}}"))
            case {"type": "enum", "name": name}:
                return self._named.setdefault(name, pa.string())
            case {"type": "fixed", "name": name}:
                return self._named.setdefault(name, pa.binary())
            case {"type": inner}:
                return self.of(inner, place)
        raise UserError(f"{place}: {schema!r:.80} is not an Avro type")

    def _record(self, name: str, fields: Any, place: str) -> Any:
        require(bool(fields), f"{place}: a record without fields cannot be stored")
        self._open.add(name)
        kind = struct_type(
            (one["name"], self.of(one["type"], f"{place}.{one['name']}")) for one in fields
        )
        self._open.discard(name)
        self._named[name] = kind
        return kind

    def _name(self, name: str, place: str) -> Any:
        kinds = _primitive_types()
        short = name.rpartition(".")[2]
        require(
            name not in self._open and short not in self._open,
            f"{place}: {name} is recursive, which a column cannot be",
        )
        kind = kinds.get(name) or self._named.get(name) or self._named.get(short)
        if kind is None:
            raise UserError(f"{place}: a column of Avro's {name} cannot be stored")
        return kind


def _primitive_types() -> Mapping[str, Any]:
    import pyarrow as pa

    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float64(),
        "double": pa.float64(),
        "string": pa.string(),
        "bytes": pa.binary(),
    }


def _logical(logical: str, schema: Mapping[Any, Any], place: str) -> Any:
    import pyarrow as pa

    match logical:
        case "date":
            return pa.date32()
        case "timestamp-millis" | "timestamp-micros":
            return pa.timestamp("us", "UTC")
        case _:
            precision, scale = schema.get("precision", 0), schema.get("scale", 0)
            require(
                1 <= precision <= 38 and 0 <= scale <= precision,
                f"{place}: decimal({precision},{scale}) cannot be stored",
            )
            return pa.decimal128(precision, scale)


def _without_other_logical_types(schema: Any) -> Any:
    match schema:
        case list():
            return [_without_other_logical_types(one) for one in schema]
        case dict():
            return {
                name: _without_other_logical_types(one)
                for name, one in schema.items()
                if name != "logicalType" or one in _LOGICAL
            }
    return schema


def parse_avro(schema: str, references: Mapping[str, str] = NO_REFERENCES) -> Any:
    """Parses a schema and its references with fastavro; raises `UserError`."""
    fastavro = _fastavro()
    named: dict[str, Any] = {}
    try:
        for text in references.values():
            fastavro.parse_schema(_content(text), named_schemas=named)
        return fastavro.parse_schema(_content(schema), named_schemas=named)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise UserError(f"this is not an Avro schema: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # fastavro raises these for JSON that lacks required fields
        raise UserError(f"this is not an Avro schema: {error!r}") from error


def _content(schema: str) -> Any:
    return _without_other_logical_types(_parse_json(schema))


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the Avro schema is not JSON: {error}") from error


def _words(error: BaseException) -> str:
    """The message of an error, without addresses of Python objects."""
    return (str(error) or type(error).__name__).partition(" from <")[0]


def _fastavro() -> Any:
    with needed_for("Avro"):
        import fastavro
        import fastavro.read
        import fastavro.schema
    return fastavro
