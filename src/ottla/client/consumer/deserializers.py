"""Convert the bytes of a key or a value to an application's object.

A deserializer is a function of bytes, or the name of one of these: "bytes", "str", "json". It is
not called for null.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.avro_reading import AvroReader, avro_reader
from ottla.schema_registry.avro_schemas import AvroSchema, avro_schema, parsed
from ottla.schema_registry.framing import PREFIX, prefixed_id
from ottla.schema_registry.opening import open_registry
from ottla.schema_registry.registry import AVRO, RegisteredSchema, parse_login

Deserialize = Callable[[bytes], Any]
Deserializer = Deserialize | str

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

NAMED: Mapping[str, Deserialize | None] = {
    "bytes": None,
    "str": bytes.decode,
    "json": json.loads,
}


def deserializer_of(wanted: Deserializer | None) -> Deserialize | None:
    """Returns the function; `None` for plain bytes. Raises `UserError`."""
    if wanted is None or callable(wanted):
        return wanted
    if wanted not in NAMED:
        raise UserError(
            f"there is no deserializer {wanted}; one of {', '.join(NAMED)}, or a function"
        )
    return NAMED[wanted]


class AvroDeserializer:
    """Reads objects that were written with an Avro schema.

    If a registry's framing precedes them, each is read with the schema that wrote it: from
    `registry` (an http address with `registry_config`, the settings of a login, or a directory of
    schemas), or from a function of the id. `schema`, if also given, is the reader's schema. With
    `schema_id` only that id is accepted, and read with `schema`. Needs the extra `avro`.

    >>> deserialize = ottla.AvroDeserializer({"type": "record", "name": "Order", "fields": [
    ...     {"name": "tea", "type": "int"}]})
    >>> deserialize(b"F")
    {'tea': 35}
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | str | Callable[[int], Mapping[str, Any]] | None = None,
        *,
        schema_id: int | None = None,
        registry: str | None = None,
        registry_config: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self._readers: dict[int, AvroReader] = {}
        self._find: Callable[[int], AvroReader] | None = None
        self._shown: Any = None
        self._unframed: AvroReader | None = None
        if callable(schema):
            self._find = lambda schema_id: self._reader(_schema_of(schema(schema_id)))
        elif schema is not None:
            shown = _schema_of(schema)
            self._shown = parsed(shown)
            self._unframed = avro_reader(shown, self._shown)
        if registry is not None:
            if self._find is not None or schema_id is not None:
                raise UserError("a registry has the writer's schema: omit the other")
            known = open_registry(registry, parse_login(registry_config))
            self._find = lambda schema_id: self._registered(known.schema(schema_id))
        elif schema is None:
            raise UserError("name the schema that wrote the objects, or the registry that has it")
        elif schema_id is not None:
            if self._find is not None:
                raise UserError("a function has a schema for each id: omit schema_id")
            assert self._unframed is not None
            self._readers[schema_id] = self._unframed
        self._is_framed = self._find is not None or schema_id is not None

    def __call__(self, data: bytes) -> Any:
        if not self._is_framed:
            assert self._unframed is not None
            return self._unframed.read(data)
        schema_id = prefixed_id(data)
        if schema_id is None:
            raise ValueError("it does not begin with a schema registry's 0 and a schema's id")
        return self._reader_of(schema_id).read(data[PREFIX.size :])

    def _reader_of(self, schema_id: int) -> AvroReader:
        if schema_id not in self._readers:
            if self._find is None:
                (known,) = self._readers
                raise ValueError(f"it was written with schema id {schema_id}, not {known}")
            self._readers[schema_id] = self._find(schema_id)
        return self._readers[schema_id]

    def _registered(self, found: RegisteredSchema) -> AvroReader:
        if found.kind != AVRO:
            raise ValueError(f"its schema is {found.kind} and not Avro")
        return self._reader(avro_schema(found))

    def _reader(self, written: AvroSchema) -> AvroReader:
        is_shown = self._shown is None
        return avro_reader(written, parsed(written, is_shown=is_shown), self._shown)


def _schema_of(given: Mapping[str, Any] | str) -> AvroSchema:
    text = given if isinstance(given, str) else json.dumps(given)
    return avro_schema(RegisteredSchema(text=text))
