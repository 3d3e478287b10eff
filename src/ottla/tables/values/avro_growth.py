"""Combines the Avro schemas of all versions of a subject, and finds fields that a schema lacks.

A field that a later version adds is null in older values if it has no default. A field that a later
version removes is kept: values without it get its default, or are rejected if it has none, because
it may have been renamed. A field with an alias is the field of that name. Values of a version whose
types conflict with earlier ones are rejected too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from ottla.base.values import dataclass
from ottla.schema_registry.avro_schemas import AvroSchema, avro_schema, nested
from ottla.schema_registry.registry import RegisteredSchema

_WIDER: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types to which values of a type may be promoted."""


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
    return json.dumps(nested(whole))


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
        other = of_now.pop(_name_now(one, of_now), None)
        if other is None:
            fields.append(one)
            continue
        merged = {**one, **other, "type": _both(one["type"], other["type"]), "name": one["name"]}
        names = {*one.get("aliases", ()), *other.get("aliases", ()), other["name"]}
        if names > {one["name"]}:
            merged["aliases"] = sorted(names - {one["name"]})
        default = other.get("default", one.get("default", _NONE))
        merged.pop("default", None)
        fields.append(merged if default is _NONE else _with_default(merged, default))
    return [*fields, *(_optional(one) for one in of_now.values())]


def _name_now(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The name by which a later version has a field."""
    name = str(before["name"])
    named_so = (one for one, field in now.items() if name in field.get("aliases", ()))
    before_so = (one for one in before.get("aliases", ()) if one in now)
    return name if name in now else next(chain(named_so, before_so), name)


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
        other = self.shown.definition(_alone(other))
        one = self.written.definition(self._branch(one, other))
        match one, other:
            case {"type": "record", "fields": fields}, {"type": "record", "fields": others}:
                if not _is_named_so(one, other):
                    yield (
                        f"its {place} is a record {one['name']}, the table's a record "
                        f"{other['name']}: load into another table, or give that record the alias "
                        f"{one['name']} in a schema of your own (--schema)"
                    )
                yield from self._of_fields(fields, others, place)
            case {"items": items}, {"items": others}:
                yield from self.faults(items, others, f"{place}[]")
            case {"values": values}, {"values": others}:
                yield from self.faults(values, others, f"{place}{{}}")
            case _ if _is_other_time(one, other):
                yield (
                    f"its {place} is {_word(one)}, the table's is {_word(other)}: load into "
                    f"another table"
                )

    def _branch(self, schema: Any, shown: Any) -> Any:
        """The type in a union that the shown type reads."""
        if not isinstance(schema, list):
            return schema
        records = [one for one in schema if "fields" in self.written.definition(one)]
        named_so = (one for one in records if _is_named_so(self.written.definition(one), shown))
        return next(named_so, _alone(schema))

    def _of_fields(self, written: list[Any], shown: list[Any], place: str) -> Iterator[str]:
        left = {field["name"]: field for field in written}
        for field in shown:
            names = (field["name"], *field.get("aliases", ()))
            found = left.pop(next((one for one in names if one in left), ""), None)
            if found is not None:
                yield from self.faults(found["type"], field["type"], _at(place, field))
            elif "default" not in field:
                yield (
                    f"it has no {_at(place, field)}, for which the table's has no default: if it "
                    f"is named otherwise now, the schema needs the alias"
                )
        if self.is_whole:
            for field in left.values():
                yield f"its {_at(place, field)} is not in the table yet: load again to add it"


def _is_named_so(written: Any, shown: Any) -> bool:
    """Whether the names of records allow one to be read as the other: without namespaces."""
    if "fields" not in shown:
        return False
    bare = written["name"].rpartition(".")[2]
    names = {shown["name"].rpartition(".")[2], *shown.get("aliases", ())}
    return bool({bare, written["name"]} & names)


_MILLIS = "timestamp-millis"


def _is_other_time(one: Any, other: Any) -> bool:
    """Whether a number would be a time in another unit."""
    logical = {_logical(one), _logical(other)}
    return _MILLIS in logical and not logical <= {_MILLIS, "timestamp-micros"}


def _logical(schema: Any) -> str:
    return str(schema.get("logicalType", "")) if isinstance(schema, dict) else ""


def _word(schema: Any) -> str:
    return _logical(schema) or str(schema["type"] if isinstance(schema, dict) else schema)


def _alone(schema: Any) -> Any:
    """The type in a union that is not null."""
    if not isinstance(schema, list):
        return schema
    return next((one for one in schema if one != "null"), "null")


def _at(place: str, field: Mapping[str, Any]) -> str:
    return f"{place}.{field['name']}"
