"""From the bytes of a key or a value to what an application has.

A deserializer is a function of bytes, or the name of one of these: "bytes", "str", "json". It is
not called for null.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.framing import PREFIX, prefixed_id

Deserialize = Callable[[bytes], Any]
Deserializer = Deserialize | str

NAMED: Mapping[str, Deserialize | None] = {
    "bytes": None,
    "str": bytes.decode,
    "json": json.loads,
}


def deserializer_of(wanted: Deserializer | None) -> Deserialize | None:
    """The function; `None` for bytes as they are. Raises `UserError`."""
    if wanted is None or callable(wanted):
        return wanted
    if wanted not in NAMED:
        raise UserError(
            f"there is no deserializer {wanted}; one of {', '.join(NAMED)}, or a function"
        )
    return NAMED[wanted]


class AvroDeserializer:
    """Objects that were written by an Avro schema.

    With `is_registered` they are preceded by a registry's framing: `schema` is then the one that
    wrote them, or a function that gives the schema of an id. Needs the extra `avro`.

    >>> deserialize = ottla.AvroDeserializer({"type": "record", "name": "Order", "fields": [
    ...     {"name": "tea", "type": "int"}]})
    >>> deserialize(b"F")
    {'tea': 35}
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | str | Callable[[int], Mapping[str, Any]],
        *,
        is_registered: bool = False,
    ) -> None:
        try:
            from fastavro import parse_schema, schemaless_reader
        except ImportError as error:
            raise UserError("Avro needs fastavro; pip install 'ottla[avro]'") from error
        self._parse: Callable[[Any], Any] = parse_schema
        self._read = schemaless_reader
        self._find = schema if callable(schema) else None
        self._schemas: dict[int, Any] = {}
        if not callable(schema):
            self._only = parse_schema(json.loads(schema) if isinstance(schema, str) else schema)
        self._is_registered = is_registered or callable(schema)

    def __call__(self, data: bytes) -> Any:
        if not self._is_registered:
            return self._read(BytesIO(data), self._only, None)
        schema_id = prefixed_id(data)
        if schema_id is None:
            raise ValueError("it does not begin with a schema registry's 0 and a schema's id")
        return self._read(BytesIO(data[PREFIX.size :]), self._schema(schema_id), None)

    def _schema(self, schema_id: int) -> Any:
        if self._find is None:
            return self._only
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._parse(self._find(schema_id))
        return self._schemas[schema_id]
