"""Decodes Avro values with fastavro: one binary datum per value, without trailing bytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.avro_reading import (
    BROKEN,
    MOST_SKIPPED_LEVELS,
    AvroReader,
    avro_reader,
)
from ottla.schema_registry.avro_schemas import AvroSchema, Definition, avro_schema, parsed
from ottla.schema_registry.registry import RegisteredSchema
from ottla.tables.values.decoder import Decoded, require
from ottla.tables.values.schema import MAX_DECIMAL_DIGITS, struct_type


class AvroDecoder:
    """See `ValueDecoder`; `schema` is Avro's JSON."""

    def __init__(self, schema: str) -> None:
        self._shown = avro_schema(RegisteredSchema(text=schema))
        self._parsed = parsed(self._shown, shaped=_shaped)
        self._type = _Types(self._shown).of(self._shown.top, "value")
        self._own = avro_reader(self._shown, self._parsed, most_levels=MOST_SKIPPED_LEVELS)

    def reader(self, written: AvroSchema) -> AvroReader:
        """Reads data of schema `written` in the fields of this decoder's schema."""
        of_it = parsed(written, is_shown=False, shaped=_shaped)
        return avro_reader(written, of_it, self._parsed, MOST_SKIPPED_LEVELS)

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
        except (pa.ArrowException, *BROKEN):
            return Decoded(self._one_by_one(rows, faults), faults)

    def _all(
        self, values: Sequence[bytes | None], headers: Any
    ) -> Iterator[tuple[Any, str | None]]:
        """For each value its row, or its fault."""
        for value in values:
            yield (None, None) if value is None else read_datum(value, self._own)

    def _one_by_one(self, rows: list[Any], faults: dict[int, str]) -> Any:
        """Converts rows one by one if one has no Arrow representation, such as a number with more
        digits than its decimal.
        """
        import pyarrow as pa

        sound = []
        for index, row in enumerate(rows):
            try:
                pa.array([row], self._type)
                sound.append(row)
            except (pa.ArrowException, *BROKEN) as error:
                faults[index] = f"it cannot be stored: {_words(error)}"
                sound.append(None)
        return pa.array(sound, self._type)


def read_datum(value: bytes, reader: AvroReader) -> tuple[Any, str | None]:
    """The row, or the fault."""
    import fastavro.read

    try:
        return reader.read(value), None
    except BROKEN as error:
        # Of a date or time that Python's types do not have; the datum is sound.
        if isinstance(error, OverflowError) or str(error).startswith(("ordinal ", "year ")):
            return None, "it has a date or a time outside of the years 1 to 9999"
        return None, f"it does not match the Avro schema: {_words(error)}"
    except fastavro.read.SchemaResolutionError as error:
        return None, f"its schema does not match the table's: {_words(error)}"


_WITHOUT = (
    "leave it out of a schema that you give (--schema), and the loads will leave it out of values"
)


class _Types:
    """The Arrow types of a schema's types."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._open: set[str] = set()

    def of(self, schema: Any, place: str) -> Any:
        import pyarrow as pa

        match schema:
            case str():
                return self._name(schema, place)
            case list():
                kinds = [one for one in schema if one != "null"]
                require(len(kinds) == 1, _no_union(schema, place))
                return self.of(kinds[0], place)
            case {"type": "array", "items": items}:
                return pa.list_(self.of(items, f"{place}[]"))
            case {"type": "map", "values": values}:
                return pa.map_(pa.string(), self.of(values, f"{place}{{}}"))
            case {"type": kind}:
                return _logical_type(schema) or self._name(kind, place)
        raise UserError(f"{place}: {schema!r:.80} is not an Avro type")

    def _name(self, name: str, place: str) -> Any:
        import pyarrow as pa

        require(
            name not in self._open,
            f"{place}: {name} is recursive, which a column cannot be; {_WITHOUT}",
        )
        definition = self._schema.named.get(name)
        if definition is None:
            kind = _primitive_types().get(name)
            require(
                kind is not None, f"{place}: a column of Avro's {name} cannot be stored; {_WITHOUT}"
            )
            return kind
        match definition:
            case {"type": "record", "fields": fields}:
                return self._record(name, fields, place)
            case {"type": "enum"}:
                return pa.string()
        return _logical_type(definition) or pa.binary()

    def _record(self, name: str, fields: Any, place: str) -> Any:
        require(bool(fields), f"{place}: a record without fields cannot be stored; {_WITHOUT}")
        self._open.add(name)
        kind = struct_type(
            (one["name"], self.of(one["type"], f"{place}.{one['name']}")) for one in fields
        )
        self._open.discard(name)
        return kind


def _no_union(union: list[Any], place: str) -> str:
    said = f"{place}: only unions of null and one type can be loaded"
    if place == "value":
        names = ", ".join(str(one) for one in union if one != "null")
        return (
            f"{said}, not of {names}: give the schema of one of them (--schema), and what becomes "
            f"of the others' values (--on-error quarantine or skip)"
        )
    return f"{said}; {_WITHOUT}"


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


def _logical_type(definition: Definition) -> Any:
    """The Arrow type of a logical type; `None` for those that are read as their underlying type, as
    Avro specifies for unknown ones: also decimals with more digits than a column can have.
    """
    import pyarrow as pa

    match definition.get("logicalType"):
        case "date":
            return pa.date32()
        case "timestamp-millis" | "timestamp-micros":
            return pa.timestamp("us", "UTC")
        case "decimal" if definition["precision"] <= MAX_DECIMAL_DIGITS:
            return pa.decimal128(definition["precision"], definition.get("scale", 0))
    return None


def _shaped(definition: Definition) -> Definition:
    """Without a logical type whose column has the underlying type."""
    if "logicalType" not in definition or _logical_type(definition) is not None:
        return definition
    return {name: one for name, one in definition.items() if name != "logicalType"}


def _words(error: BaseException) -> str:
    """The message of an error, without addresses of Python objects."""
    return (str(error) or type(error).__name__).partition(" from <")[0]
