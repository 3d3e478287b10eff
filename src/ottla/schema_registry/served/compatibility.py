"""Checks a schema against earlier versions under a subject's compatibility level.

Avro schemas are parsed and compared by Avro's own library. Protobuf schemas are compiled by protoc,
but like JSON Schemas not compared: any version may follow any other.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.schema_registry.protobuf_schemas import compiled
from ottla.schema_registry.registry import AVRO, JSON, PROTOBUF
from ottla.schema_registry.served.faults import invalid_schema
from ottla.schema_registry.served.spelling import NO_NAMESPACE, avro_forms, meaning, parsed_json

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT_LEVEL = "BACKWARD"
_NO_NAMESPACE = lazy_pattern(rf"\b{NO_NAMESPACE}\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A valid schema; `references` are texts, each after those that it references itself.

    `meaning` is the same in all spellings.
    """

    text: str
    kind: str = AVRO
    meaning: str = ""
    references: tuple[tuple[str, str], ...] = ()


def parsed(text: str, kind: str, references: Mapping[str, str]) -> Schema:
    """Raises `RegistryError` for an invalid schema."""
    needed = tuple(references.items())
    if kind == AVRO:
        _avro(text, needed)
    if kind == JSON and not isinstance(parsed_json(text), dict | bool):
        raise invalid_schema("a JSON schema is an object, true or false")
    if kind == PROTOBUF:
        _check_protobuf(text, references)
    said = meaning(text, kind)
    if kind != PROTOBUF:
        text = json.dumps(parsed_json(text), separators=(",", ":"), ensure_ascii=False)
    return Schema(text=text, kind=kind, meaning=said, references=needed)


def _check_protobuf(text: str, references: Mapping[str, str]) -> None:
    """By protoc, in a process of its own; without it nothing is accepted unexamined."""
    try:
        compiled(text, references)
    except UserError as error:
        raise invalid_schema(str(error)) from error


def faults(schema: Schema, others: Sequence[Schema], level: str) -> list[str]:
    """Why the schema may not follow `others`, all of which count; empty if it may."""
    found = []
    for other in others:
        if other.kind != schema.kind:
            found.append(f"it is {schema.kind}, but the version before is {other.kind}")
        elif schema.kind == AVRO:
            new, old = (_avro(one.text, one.references) for one in (schema, other))
            if not level.startswith("FORWARD"):
                found += _unreadable(new, old, "new", "old")
            if not level.startswith("BACKWARD"):
                found += _unreadable(old, new, "old", "new")
    return found


def _unreadable(reader: Any, writer: Any, reads: str, wrote: str) -> list[str]:
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    try:
        found = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    places = sorted(found.locations)
    return [
        f"the {reads} schema cannot read what the {wrote} one wrote: "
        f"{_NO_NAMESPACE.sub('', message)} (at {', '.join(places)})"
        for message in sorted(found.messages)
    ]


@lru_cache(maxsize=64)
def _avro(text: str, references: tuple[tuple[str, str], ...]) -> Any:
    with needed_for("--schema-registry"):
        from avro.errors import AvroException
        from avro.name import Names
        from avro.schema import make_avsc_object

    names = Names(validate_names=False)
    known: set[str] = set()
    found: Any = None
    for one in dict.fromkeys((*(one for _, one in references), text)):
        bare = avro_forms(parsed_json(one), known).bare
        try:
            found = make_avsc_object(bare, names, validate_names=False)
        except (AvroException, ValueError, TypeError, AttributeError, LookupError) as error:
            raise invalid_schema(_NO_NAMESPACE.sub("", str(error))) from error
        except RecursionError as error:
            raise invalid_schema("it is nested too deeply") from error
        known |= {name.removeprefix(f"{NO_NAMESPACE}.") for name in names.names}
    return found
