"""What another program asks of a Delta table's writers that no load does: rules for rows, and
features of which Delta's library does not know.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.base.patterns import lazy_pattern
from ottla.tables.columns.flat import is_flat
from ottla.tables.columns.rows import never_null
from ottla.tables.formats.transaction_log import RefusedError

_CONSTRAINT = "delta.constraints."
_INVARIANT = "delta.invariants"
_GENERATED = "delta.generationExpression"
_FEATURES = lazy_pattern(r"Unsupported table features required: \[(.*)\]|Feature '(\w+)' is not")
_FEATURE = lazy_pattern(r"Unknown\(\"(\w+)\"\)|(\w+)")
_OTHER_NAMES = {"clusteredTable": "clustering", "timestampWithoutTimezone": "timestampNtz"}
"""Features that Delta's library calls otherwise than Delta."""


def check_rules(address: str, settings: Mapping[str, str], schema: Mapping[str, Any]) -> None:
    """Raises `RefusedError` if rows of the log may break a rule, or lack what it asks for."""
    alter = f"ALTER TABLE delta.`{address}`"
    for name, condition in settings.items():
        if name.startswith(_CONSTRAINT):
            short = name.removeprefix(_CONSTRAINT)
            raise _refused(
                address,
                f"the table the CHECK constraint {short} ({condition})",
                f"{alter} DROP CONSTRAINT {short}, or load into another table",
            )
    filled = never_null(is_flat=is_flat(one["name"] for one in schema["fields"]))
    for name, field in _fields("", schema):
        if (found := _rule_of(field)) is not None:
            raise _refused(address, f"column {name} {found}", "load into another table")
        if not field["nullable"] and name not in filled:
            raise _refused(
                address,
                f"column {name} NOT NULL",
                f"{alter} ALTER COLUMN {name} DROP NOT NULL, or load into another table",
            )


def refused_by_library(address: str, text: str) -> RefusedError | None:
    """The error for what the library says of a table that it cannot change as asked."""
    alter = f"ALTER TABLE delta.`{address}`"
    if found := _FEATURES.search(text):
        parts = _FEATURE.finditer(found[1] or found[2])
        names = sorted(_feature(one[1] or one[2]) for one in parts)
        return RefusedError(
            f"{address}: another program has given the table features that Delta's library does "
            f"not know ({', '.join(names)}); drop them ({alter} DROP FEATURE {names[0]}), or load "
            f"into another table"
        )
    if "append-only" in text:
        return RefusedError(
            f"{address}: another program has set delta.appendOnly, by which no rows may be "
            f"replaced or deleted; {alter} SET TBLPROPERTIES ('delta.appendOnly' = 'false') first"
        )
    return None


def _feature(name: str) -> str:
    delta = f"{name[0].lower()}{name[1:]}"
    return _OTHER_NAMES.get(delta, delta)


def _rule_of(field: Mapping[str, Any]) -> str | None:
    metadata = field.get("metadata") or {}
    if _INVARIANT in metadata:
        return f"the invariant {_expression(metadata[_INVARIANT])}"
    if _GENERATED in metadata:
        return f"a value of its own, GENERATED ALWAYS AS ({metadata[_GENERATED]})"
    return None


def _expression(text: str) -> str:
    try:
        return str(json.loads(text)["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return text


def _refused(address: str, what: str, mend: str) -> RefusedError:
    return RefusedError(f"{address}: another program has given {what}, which no load heeds; {mend}")


def _fields(place: str, struct: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields of a type in Delta's JSON, also within lists and maps, with their paths."""
    for field in struct.get("fields", ()):
        name = f"{place}{field['name']}"
        yield name, field
        yield from _inner_fields(name, field["type"])


def _inner_fields(name: str, kind: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(kind, dict):
        yield from _fields(f"{name}.", kind)
        for one in ("elementType", "valueType"):
            yield from _inner_fields(name, kind.get(one))
