"""Checks a schema against earlier versions under a subject's compatibility level.

Avro schemas are compared by Avro's own library; of JSON Schema and Protobuf only the text is known
here, and any version may follow any other.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base.extras import needed_for
from ottla.schema_registry.registry import AVRO, JSON
from ottla.schema_registry.served.faults import invalid_schema

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


class Schema:
    """A parsed schema."""

    def __init__(self, text: str, kind: str, references: Mapping[str, str]) -> None:
        """Raises `RegistryError` for an invalid schema."""
        self.kind = kind
        self._avro: Any = None
        self.text = text
        if kind == AVRO:
            self._avro = _avro(text, references)
        if kind in (AVRO, JSON):
            self.text = _compact(text)

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


def _unreadable(reader: Any, writer: Any, reads: str, wrote: str) -> list[str]:
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    found = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    places = sorted(found.locations)
    return [
        f"the {reads} schema cannot read what the {wrote} one wrote: {message} (at "
        f"{', '.join(places)})"
        for message in sorted(found.messages)
    ]


def _avro(text: str, references: Mapping[str, str]) -> Any:
    with needed_for("--schema-registry"):
        from avro.errors import AvroException
        from avro.name import Names
        from avro.schema import make_avsc_object

    names = Names()
    try:
        for one in references.values():
            make_avsc_object(json.loads(one), names)
        return make_avsc_object(json.loads(text), names)
    except (AvroException, ValueError, TypeError, AttributeError, KeyError) as error:
        raise invalid_schema(str(error)) from error
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise invalid_schema(str(error)) from error
