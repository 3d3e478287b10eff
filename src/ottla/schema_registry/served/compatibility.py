"""Checks a schema against earlier versions under a subject's compatibility level.

Avro schemas are compared by Avro's own library; of JSON Schema and Protobuf only the text is known
here, and any version may follow any other.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
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


class Schema:
    """A parsed schema."""

    def __init__(self, text: str, kind: str, references: Mapping[str, str]) -> None:
        """Raises `RegistryError` for an invalid schema."""
        self.kind = kind
        self._avro: Any = None
        self.text = text
        if kind == AVRO:
            self._avro = _avro(text, references)
        if kind == JSON and not isinstance(parsed_json(text), dict | bool):
            raise invalid_schema("a JSON schema is an object, true or false")
        if kind != PROTOBUF:
            content = parsed_json(text)
            self.text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        self.meaning = meaning(text, kind)

    def faults(self, others: Sequence["Schema"], level: str) -> list[str]:
        """Why the schema may not follow `others`, oldest first; empty if it may."""
        others = others if level.endswith("_TRANSITIVE") else others[-1:]
        found = []
        for other in others:
            if other.kind != self.kind:
                found.append(f"it is {self.kind}, but the version before is {other.kind}")
                continue
            if self._avro is None or level == "NONE":
                continue
            if not level.startswith("FORWARD"):
                found += _unreadable(self._avro, other._avro, "new", "old")
            if not level.startswith("BACKWARD"):
                found += _unreadable(other._avro, self._avro, "old", "new")
        return [] if level == "NONE" else found


@lru_cache(maxsize=256)
def known_schema(text: str, kind: str, references: tuple[tuple[str, str], ...]) -> Schema:
    """A schema that is registered, parsed once while it is asked for."""
    return Schema(text, kind, dict(references))


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


def _avro(text: str, references: Mapping[str, str]) -> Any:
    with needed_for("--schema-registry"):
        from avro.errors import AvroException
        from avro.name import Names
        from avro.schema import make_avsc_object

    names = Names(validate_names=False)
    known: set[str] = set()
    found: Any = None
    for one in dict.fromkeys((*references.values(), text)):
        bare = avro_forms(parsed_json(one), known).bare
        try:
            found = make_avsc_object(bare, names, validate_names=False)
        except (AvroException, ValueError, TypeError, AttributeError, LookupError) as error:
            raise invalid_schema(_NO_NAMESPACE.sub("", str(error))) from error
        except RecursionError as error:
            raise invalid_schema("it is nested too deeply") from error
        known |= {name.removeprefix(f"{NO_NAMESPACE}.") for name in names.names}
    return found
