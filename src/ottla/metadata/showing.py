"""Records of a metadata log for people and for JSON, without what gives access.

Kafka's counterparts: the `...JsonConverter` classes, `MetadataNodeRedactor`.
"""

import base64
from typing import Any, Final

from ottla.base.ids import uuid_text
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.fields import Field
from ottla.codec.schema import Message, Struct
from ottla.config.any_setting import is_sensitive, setting_row
from ottla.metadata.records import ConfigRecord, UserScramCredentialRecord

HIDDEN: Final = "[hidden]"
SECRETS: Final = frozenset({"salt", "stored_key", "server_key"})


def shown_fields(record: Message) -> dict[str, Any]:
    """The fields as JSON has them: ids as in Kafka's files, other bytes in base64, keys hidden."""
    fields = {one.name: _shown(one, getattr(record, one.name)) for one in record.FIELDS}
    return fields | dict.fromkeys(_secret_names(record), HIDDEN)


def record_text(
    record: Message, *, is_brief: bool = False, without: frozenset[str] = frozenset()
) -> str:
    """Example: `TopicRecord(name='orders', topic_id='1N7GsFAuR1yg8MXxqqnTYA')`.

    A brief one is without empty lists, and optional fields that the record does not have.
    """
    absent = {one.name for one in record.FIELDS if is_brief and _is_absent(one, record)}
    left_out = absent | without
    shown = {name: value for name, value in shown_fields(record).items() if name not in left_out}
    values = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    return f"{type(record).__name__}({values})"


def _is_absent(field: Field, record: Message) -> bool:
    value = getattr(record, field.name)
    return value is None or value == [] or (field.tag is not None and value == field.default)


def _secret_names(record: Message) -> frozenset[str]:
    if isinstance(record, UserScramCredentialRecord):
        return SECRETS
    if (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceKind.BROKER
        and record.value is not None
        and is_sensitive(setting_row(record.name))
    ):
        return frozenset({"value"})
    return frozenset()


def _shown(field: Field | None, value: Any) -> Any:
    match value:
        case Struct():
            return {one.name: _shown(one, getattr(value, one.name)) for one in value.FIELDS}
        case list():
            element = None if field is None else field.element
            return [_shown(element, one) for one in value]
        case bytes() | memoryview() | bytearray():
            is_id = field is not None and field.kind == "uuid"
            return uuid_text(bytes(value)) if is_id else base64.b64encode(value).decode("ascii")
        case _:
            return value
