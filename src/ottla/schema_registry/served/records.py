"""The records of the topic `_schemas` in Confluent's format: JSON keys and values.

Format page: docs/format/schemas-topic.md. Other records are ignored, as Confluent's registry
ignores those of newer versions.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ottla.base.values import dataclass
from ottla.schema_registry.registry import AVRO

SCHEMAS_TOPIC = "_schemas"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """One version of a subject."""

    subject: str
    version: int
    schema_id: int
    text: str
    kind: str = AVRO
    references: tuple[Mapping[str, Any], ...] = ()
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionGone:
    """A version that was permanently deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDeleted:
    """All versions of a subject up to this one are deleted, but can be restored."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting; `kind` is CONFIG or MODE, a `subject` of null is global, a `value` of null removes
    it.
    """

    kind: str
    subject: str | None = None
    value: str | None = field(default=None)


Change = SchemaVersion | VersionGone | SubjectDeleted | Setting

_NAMES = {"CONFIG": "compatibilityLevel", "MODE": "mode"}


def read_change(key: bytes | None, value: bytes | None) -> Change | None:
    """The change of a record; `None` for NOOP and for other records."""
    try:
        return _change(json.loads(key or b""), None if value is None else json.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _change(key: Any, value: Any) -> Change | None:
    match key["keytype"]:
        case "SCHEMA" if value is None:
            return VersionGone(subject=str(key["subject"]), version=int(key["version"]))
        case "SCHEMA":
            return SchemaVersion(
                subject=str(key["subject"]),
                version=int(key["version"]),
                schema_id=int(value["id"]),
                text=str(value["schema"]),
                kind=str(value.get("schemaType") or AVRO),
                references=tuple(dict(one) for one in value.get("references") or ()),
                is_deleted=bool(value.get("deleted", False)),
            )
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeleted(subject=str(key["subject"]), version=int(value["version"]))
        case ("CONFIG" | "MODE") as kind:
            said = None if value is None else str(value[_NAMES[kind]])
            return Setting(kind=kind, subject=key["subject"], value=said)
    return None


def write_change(change: Change) -> tuple[bytes, bytes | None]:
    """The key and value of a change's record."""
    match change:
        case SchemaVersion():
            value: dict[str, Any] = {
                "subject": change.subject,
                "version": change.version,
                "id": change.schema_id,
            }
            if change.kind != AVRO:
                value["schemaType"] = change.kind
            if change.references:
                value["references"] = list(change.references)
            value |= {"schema": change.text, "deleted": change.is_deleted}
            return _key("SCHEMA", change.subject, 1, version=change.version), _json(value)
        case VersionGone():
            return _key("SCHEMA", change.subject, 1, version=change.version), None
        case SubjectDeleted():
            value = {"subject": change.subject, "version": change.version}
            return _key("DELETE_SUBJECT", change.subject, 0), _json(value)
        case Setting():
            said = None if change.value is None else _json({_NAMES[change.kind]: change.value})
            return _key(change.kind, change.subject, 0), said


def _key(kind: str, subject: str | None, magic: int, **more: int) -> bytes:
    return _json({"keytype": kind, "subject": subject, **more, "magic": magic})


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
