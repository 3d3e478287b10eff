"""Avro schemas in one form, however they are spelled, and as fastavro is given them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegisteredSchema

_NAMED = ("record", "error", "enum", "fixed")
_RECORDS = ("record", "error")

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema in which each named type is defined once: `named` by full name, used by `top`.

    Logical types that are invalid are left out, so that values have the underlying type, as Avro
    specifies.
    """

    top: Any
    named: Mapping[str, Any]

    def definition(self, schema: Any) -> Any:
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


def avro_schema(schema: RegisteredSchema) -> AvroSchema:
    """Parses an Avro schema; raises `UserError` if it is invalid."""
    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            _flat(_parse_json(text), "", named)
        return AvroSchema(_flat(_parse_json(schema.text), "", named), named)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_avro(error) from error


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the Avro schema is not JSON: {error}") from error


def _flat(schema: Any, namespace: str, named: dict[str, Any]) -> Any:
    match schema:
        case str():
            full = full_name(schema, namespace)
            return full if full in named else schema
        case list():
            return [_flat(one, namespace, named) for one in schema]
        case {"type": str(kind), "name": name} if kind in _NAMED:
            return _named(schema, kind, full_name(name, schema.get("namespace", namespace)), named)
        case {"type": "array", "items": items}:
            return {**schema, "items": _flat(items, namespace, named)}
        case {"type": "map", "values": values}:
            return {**schema, "values": _flat(values, namespace, named)}
        case {"type": (dict() | list()) as inner_schema}:
            return _flat(inner_schema, namespace, named)
        case {"type": str(name)}:
            sound = _with_sound_logical_type(schema)
            return sound if "logicalType" in sound else _flat(name, namespace, named)
    raise ValueError(f"{schema!r:.80} is not an Avro type")


def _named(schema: Definition, kind: str, full: str, named: dict[str, Any]) -> str:
    inner = full.rpartition(".")[0]
    named[full] = definition = {**_with_sound_logical_type(schema), "name": full}
    for name in ("namespace", "__fastavro_parsed", "__named_schemas"):
        definition.pop(name, None)
    if kind in _RECORDS:
        definition["type"] = "record"
        definition["fields"] = [
            {**one, "type": _flat(one["type"], inner, named)} for one in schema["fields"]
        ]
    return full


def full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


_LOGICAL_OF = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
}


def _with_sound_logical_type(schema: Definition) -> Definition:
    """Without a logical type that is unknown, invalid, or of another underlying type."""
    if "logicalType" not in schema or _is_sound(schema["logicalType"], schema):
        return schema
    return {name: one for name, one in schema.items() if name != "logicalType"}


def _is_sound(logical: Any, schema: Definition) -> bool:
    bases = _LOGICAL_OF.get(logical, ()) if isinstance(logical, str) else ()
    if logical != "decimal" or schema["type"] not in bases:
        return schema["type"] in bases
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (type(precision) is int and type(scale) is int and 0 <= scale <= precision != 0):
        return False
    # The digits that the bytes of a fixed can have, all of them.
    return bool(schema["type"] == "bytes" or 10**precision <= 2 ** (8 * schema["size"] - 1))


# What fastavro is given


def nested(
    schema: AvroSchema, shaped: Callable[[Definition], Definition] = lambda given: given
) -> Any:
    """The schema as JSON, in which named types are defined where they are used first.

    `shaped` may change the definition of a primitive or a fixed type.
    """
    return _nested(schema.top, schema.named, shaped, set())


def _nested(
    schema: Any,
    named: Mapping[str, Any],
    shaped: Callable[[Definition], Definition],
    said: set[str],
) -> Any:
    match schema:
        case str() if schema in named and schema not in said:
            said.add(schema)
            definition = dict(named[schema])
            if "fields" in definition:
                definition["fields"] = [
                    {**one, "type": _nested(one["type"], named, shaped, said)}
                    for one in definition["fields"]
                ]
            return shaped(definition)
        case list():
            return [_nested(one, named, shaped, said) for one in schema]
        case {"items": items}:
            return {**schema, "items": _nested(items, named, shaped, said)}
        case {"values": values}:
            return {**schema, "values": _nested(values, named, shaped, said)}
        case dict():
            return shaped(schema)
    return schema


def parsed(
    schema: AvroSchema,
    *,
    is_shown: bool = True,
    shaped: Callable[[Definition], Definition] = lambda given: given,
) -> Any:
    """The schema parsed by fastavro; raises `UserError`.

    `is_shown`: the schema may read values of another, and its fields have their defaults as Python
    values; fastavro would use them as they are in JSON, so that bytes would be text.
    """
    with needed_for("Avro"):
        import fastavro
        import fastavro.schema
    try:
        found = fastavro.parse_schema(_without_defaults(nested(schema, shaped)))
        if is_shown:
            _Defaults(schema).give(found)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        reason = str(error)
        if isinstance(error, fastavro.schema.UnknownType):
            lacks = _NEEDED.get(reason)
            reason = f"{reason} lacks its {lacks}" if lacks else f"there is no type {reason}"
        raise UserError(f"this is not an Avro schema: {reason}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # fastavro raises these for JSON that lacks required fields
        raise _not_avro(error) from error
    return found


_NEEDED = {"array": "items", "map": "values"} | dict.fromkeys(
    ("enum", "error", "fixed", "record"), "name"
)
"""What makes these types: without it, the word would be the name of a type."""


def _not_avro(error: Exception) -> UserError:
    """The error for JSON that is no schema; a `KeyError` names the attribute that is missing."""
    reason = f"a type lacks its {error.args[0]}" if isinstance(error, KeyError) else error
    return UserError(f"this is not an Avro schema: {reason}")


def _without_defaults(schema: Any) -> Any:
    """Without the defaults of fields, which fastavro would check, those of a writer too."""
    match schema:
        case list():
            return [_without_defaults(one) for one in schema]
        case {"fields": fields}:
            return {**schema, "fields": [_without_default(one) for one in fields]}
        case {"items": items}:
            return {**schema, "items": _without_defaults(items)}
        case {"values": values}:
            return {**schema, "values": _without_defaults(values)}
    return schema


def _without_default(field: Definition) -> Definition:
    left = {name: one for name, one in field.items() if name != "default"}
    return {**left, "type": _without_defaults(field["type"])}


class _Defaults:
    """Turns the JSON of defaults into the values that fastavro reads from bytes."""

    def __init__(self, schema: AvroSchema) -> None:
        import fastavro.read

        self._schema = schema
        self._logical: Mapping[str, Any] = fastavro.read.LOGICAL_READERS
        self._defined: dict[str, Any] = {}

    def give(self, schema: Any) -> None:
        """Adds defaults to a parsed schema; raises `ValueError` for one of another type."""
        self._collect(schema)
        for name, definition in self._defined.items():
            if definition["type"] != "record":
                continue
            given = {one["name"]: one for one in self._schema.named[name]["fields"]}
            for field in definition["fields"]:
                if "default" in given[field["name"]]:
                    json_value = given[field["name"]]["default"]
                    try:
                        field["default"] = self._value(field["type"], json_value)
                    except (ValueError, TypeError, LookupError, AttributeError) as error:
                        raise ValueError(
                            f"the default of {name}.{field['name']}, {json_value!r:.40}, is not "
                            f"of its type"
                        ) from error

    def _collect(self, schema: Any) -> None:
        match schema:
            case list():
                for one in schema:
                    self._collect(one)
            case {"type": kind, "name": name} if kind in _NAMED:
                self._defined[name] = schema
                for field in schema.get("fields", ()):
                    self._collect(field["type"])
            case {"items": inner} | {"values": inner}:
                self._collect(inner)

    def _value(self, schema: Any, given: Any) -> Any:
        if isinstance(schema, str) and schema in self._defined:
            schema = self._defined[schema]
        if isinstance(schema, list):
            return self._first(schema, given)
        kind = schema if isinstance(schema, str) else schema["type"]
        value = self._plain(kind, schema, given)
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        read = self._logical.get(f"{kind}-{logical}")
        return value if read is None else read(value, schema, schema)

    def _first(self, union: list[Any], given: Any) -> Any:
        """By the type that comes first; since Avro 1.12 by any that matches."""
        for one in union:
            try:
                return self._value(one, given)
            except (ValueError, TypeError, LookupError, AttributeError):
                continue
        raise ValueError("no type of the union")

    def _plain(self, kind: str, schema: Any, given: Any) -> Any:
        match kind, given:
            case ("null", None) | ("boolean", bool()) | ("string", str()):
                return given
            case (("int" | "long"), int()) if not isinstance(given, bool):
                return given
            case (("float" | "double"), (int() | float())) if not isinstance(given, bool):
                return float(given)
            case (("float" | "double"), ("NaN" | "Infinity" | "-Infinity")):
                return float(given)
            case "bytes", str():
                return given.encode("latin-1")
            case "fixed", str() if len(given) == schema["size"]:
                return given.encode("latin-1")
            case "enum", str() if given in schema["symbols"]:
                return given
            case "array", list():
                return [self._value(schema["items"], one) for one in given]
            case "map", dict():
                return {name: self._value(schema["values"], one) for name, one in given.items()}
            case "record", dict():
                return self._record(schema, given)
        raise ValueError(f"not of type {kind}")

    def _record(self, schema: Any, given: dict[str, Any]) -> dict[str, Any]:
        """A record; fields that it leaves out have their own defaults."""
        defaults = {one["name"]: one for one in self._schema.named[schema["name"]]["fields"]}
        return {
            field["name"]: self._value(
                field["type"],
                given[field["name"]]
                if field["name"] in given
                else defaults[field["name"]]["default"],
            )
            for field in schema["fields"]
        }
