"""Combines the Avro schemas of all versions of a subject, and finds fields that a schema lacks.

A field that a later version adds is null in older values if it has no default. A field that a later
version removes is kept: values without it get its default, or are rejected if it has none, because
it may have been renamed. Values of a version whose types conflict with earlier ones are rejected
too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegisteredSchema

_NAMED = ("record", "error", "enum", "fixed")
_WIDER: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types to which values of a type may be promoted."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema in which each named type is defined once: `named` by full name, used by `top`."""

    top: Any
    named: Mapping[str, Any]

    def definition(self, schema: Any) -> Any:
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


def avro_schema(schema: RegisteredSchema) -> AvroSchema:
    """Parses an Avro schema; raises `UserError` if it is invalid."""
    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            _flat(json.loads(text), "", named)
        return AvroSchema(_flat(json.loads(schema.text), "", named), named)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"this is not an Avro schema: {error!r}") from error


def _flat(schema: Any, namespace: str, named: dict[str, Any]) -> Any:
    match schema:
        case str():
            full = _full(schema, namespace)
            return full if full in named else schema
        case list():
            return [_flat(one, namespace, named) for one in schema]
        case {"type": str(kind), "name": name} if kind in _NAMED:
            full = _full(name, schema.get("namespace", namespace))
            inner = full.rpartition(".")[0]
            named[full] = definition = {**schema, "name": full}
            definition.pop("namespace", None)
            if kind in ("record", "error"):
                definition["fields"] = [
                    {**one, "type": _flat(one["type"], inner, named)} for one in schema["fields"]
                ]
            return full
        case {"type": "array", "items": items}:
            return {**schema, "items": _flat(items, namespace, named)}
        case {"type": "map", "values": values}:
            return {**schema, "values": _flat(values, namespace, named)}
        case {"type": (dict() | list()) as inner_schema}:
            return _flat(inner_schema, namespace, named)
        case {"type": str(name)} if "logicalType" not in schema:
            return _flat(name, namespace, named)
        case dict():
            return schema
    raise ValueError(f"{schema!r:.80} is not an Avro type")


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


# One schema for several versions


def grown(versions: Iterable[RegisteredSchema]) -> str:
    """The schema with which values of all versions, oldest first, can be read.

    A version that conflicts with earlier ones is left out. Raises `UserError` for an invalid
    schema.
    """
    whole, *later = [avro_schema(one) for one in versions]
    for version in later:
        with suppress(_ConflictError):
            whole = _grown(whole, version)
    return json.dumps(_nested(whole.top, whole.named, set()))


def _grown(whole: AvroSchema, version: AvroSchema) -> AvroSchema:
    named = dict(whole.named)
    for name, definition in version.named.items():
        named[name] = _both(named[name], definition) if name in named else definition
    return AvroSchema(_both(whole.top, version.top), named)


class _ConflictError(Exception):
    """Two types without a common type."""


def _both(before: Any, now: Any) -> Any:
    if before == now:
        return now
    if isinstance(before, list) or isinstance(now, list):
        return _union(before, now)
    match before, now:
        case {"type": "record", "fields": one}, {"type": "record", "fields": other}:
            return {**now, "fields": _fields(one, other)}
        case {"type": "enum", "symbols": one}, {"type": "enum", "symbols": other}:
            return {**now, "symbols": list(dict.fromkeys([*one, *other]))}
        case {"type": "array", "items": one}, {"type": "array", "items": other}:
            return {**now, "items": _both(one, other)}
        case {"type": "map", "values": one}, {"type": "map", "values": other}:
            return {**now, "values": _both(one, other)}
        case str(), str() if now in _WIDER.get(before, ()):
            return now
        case str(), str() if before in _WIDER.get(now, ()):
            return before
    raise _ConflictError


def _union(before: Any, now: Any) -> Any:
    """Merges unions of null and one type, or one such union with a plain type."""
    kinds = []
    for schema in (before, now):
        of_it = [one for one in (schema if isinstance(schema, list) else [schema]) if one != "null"]
        if len(of_it) != 1:
            raise _ConflictError
        kinds += of_it
    both = _both(kinds[0], kinds[1])
    first = now if isinstance(now, list) else before
    return ["null", both] if first[0] == "null" else [both, "null"]


def _fields(before: list[Any], now: list[Any]) -> list[Any]:
    of_now = {one["name"]: one for one in now}
    fields = []
    for one in before:
        other = of_now.pop(one["name"], None)
        if other is None:
            fields.append(one)
            continue
        merged = {**one, **other, "type": _both(one["type"], other["type"])}
        default = other.get("default", one.get("default", _NONE))
        merged.pop("default", None)
        fields.append(merged if default is _NONE else _with_default(merged, default))
    return [*fields, *(_optional(one) for one in of_now.values())]


_NONE = object()


def _optional(field: Mapping[str, Any]) -> Any:
    return field if "default" in field else _with_default(field, None)


def _with_default(field: Mapping[str, Any], default: Any) -> Any:
    """The field with a default, whose type must come first in a union."""
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    others = [one for one in kinds if one != "null"]
    if default is None:
        return {**field, "type": ["null", *others], "default": None}
    return {**field, "type": [*others, "null"], "default": default}


def _nested(schema: Any, named: Mapping[str, Any], said: set[str]) -> Any:
    """The inverse of `_flat`: named types are defined where they are used first."""
    match schema:
        case str() if schema in named and schema not in said:
            said.add(schema)
            definition = dict(named[schema])
            if "fields" in definition:
                definition["fields"] = [
                    {**one, "type": _nested(one["type"], named, said)}
                    for one in definition["fields"]
                ]
            return definition
        case list():
            return [_nested(one, named, said) for one in schema]
        case {"items": items}:
            return {**schema, "items": _nested(items, named, said)}
        case {"values": values}:
            return {**schema, "values": _nested(values, named, said)}
    return schema


# Fields that a schema lacks


def uncovered(written: AvroSchema, shown: AvroSchema, *, is_whole: bool) -> str | None:
    """Why values written with one schema cannot be read with another, by their fields.

    `is_whole`: every written field must be readable.
    """
    faults = _Comparison(written, shown, is_whole).faults(written.top, shown.top, "value")
    return next(faults, None)


@dataclass(frozen=True, slots=True)
class _Comparison:
    written: AvroSchema
    shown: AvroSchema
    is_whole: bool

    def faults(self, one: Any, other: Any, place: str) -> Iterator[str]:
        # Terminates because a table's schema is not recursive.
        one, other = self.written.definition(_alone(one)), self.shown.definition(_alone(other))
        match one, other:
            case {"type": "record", "fields": fields}, {"type": "record", "fields": others}:
                yield from self._of_fields(fields, others, place)
            case {"items": items}, {"items": others}:
                yield from self.faults(items, others, f"{place}[]")
            case {"values": values}, {"values": others}:
                yield from self.faults(values, others, f"{place}{{}}")

    def _of_fields(self, written: list[Any], shown: list[Any], place: str) -> Iterator[str]:
        left = {field["name"]: field for field in written}
        for field in shown:
            found = left.pop(field["name"], None)
            if found is not None:
                yield from self.faults(found["type"], field["type"], _at(place, field))
            elif "default" not in field:
                yield f"it has no {_at(place, field)}, for which the table's has no default"
        if self.is_whole:
            for field in left.values():
                yield f"its {_at(place, field)} is not in the table yet: load again to add it"


def _alone(schema: Any) -> Any:
    """The type in a union that is not null."""
    if not isinstance(schema, list):
        return schema
    return next((one for one in schema if one != "null"), "null")


def _at(place: str, field: Mapping[str, Any]) -> str:
    return f"{place}.{field['name']}"
