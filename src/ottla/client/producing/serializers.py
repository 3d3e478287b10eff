"""Convert an application's objects to the bytes of a key or a value.

A serializer is a function of one object, or the name of one of these: "bytes", "str", "json".
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.avro_schemas import avro_schema, parsed
from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.registry import RegisteredSchema

Serialize = Callable[[Any], bytes | None]
Serializer = Serialize | str


def serializer_of(wanted: Serializer | None) -> Serialize | None:
    """Returns the function; `None` for plain bytes. Raises `UserError`."""
    if wanted is None or callable(wanted):
        return wanted
    if wanted not in NAMED:
        raise UserError(
            f"there is no serializer {wanted}; one of {', '.join(NAMED)}, or a function"
        )
    return NAMED[wanted]


class SerializationError(UserError):
    """A key or a value that "str" or "json" cannot write.

    >>> with ottla.Producer(log, value_serializer="json") as producer:
    ...     producer.send("orders", {1, 2})
    Traceback (most recent call last):
    ottla.client.producing.serializers.SerializationError: the value cannot be serialized: ...
    """


def as_text(value: str) -> bytes:
    if not isinstance(value, str):
        raise SerializationError(f"it is a str, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(str(error)) from error


def as_json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(str(error)) from error


NAMED: Mapping[str, Serialize | None] = {"bytes": None, "str": as_text, "json": as_json}


class AvroSerializer:
    """Writes objects with an Avro schema; with `schema_id`, in the framing of schema registries.
    Needs the extra `avro`. An invalid object raises fastavro's error.

    >>> serialize = ottla.AvroSerializer({"type": "record", "name": "Order", "fields": [
    ...     {"name": "tea", "type": "int"}]})
    >>> serialize({"tea": 35})
    b'F'
    """

    def __init__(self, schema: Mapping[str, Any] | str, *, schema_id: int | None = None) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self._schema = parsed(avro_schema(RegisteredSchema(text=text)))
        from fastavro import schemaless_writer

        self._write = schemaless_writer
        self._prefix = b"" if schema_id is None else PREFIX.pack(0, schema_id)

    def __call__(self, value: Any) -> bytes:
        out = BytesIO()
        out.write(self._prefix)
        self._write(out, self._schema, value)
        return out.getvalue()
