"""Keys and values that name their schema in a registry: Avro, Protobuf or JSON."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.schema_registry.framing import (
    FIRST_MESSAGE,
    KEY_HEADER,
    PREFIX,
    VALUE_HEADER,
    framed,
    message_indexes,
)
from ottla.schema_registry.registry import AVRO, JSON, RegisteredSchema, UnknownSchemaError
from ottla.search.encodings import (
    Encoding,
    decoded_encoding,
    read_avro,
    read_json,
    written_avro,
)

if TYPE_CHECKING:
    from ottla.schema_registry.registry import SchemaRegistry

Reader = Callable[[bytes, int], Any]
"""Decodes data, from the position after its framing, to an application's value."""


def registered(side: str, registry: "SchemaRegistry") -> Encoding:
    """Decodes data by the schema whose id precedes it, or whose GUID is in a header; cannot encode.

    Raises `UserError` when data is read and the registry cannot be reached.
    """

    @cache
    def written(schema: int | str) -> tuple[Reader | None, str]:
        """Returns the reader of a schema, or why there is none: the registry is asked once for
        either.
        """
        try:
            if isinstance(schema, int):
                found = registry.schema(schema)
            else:
                found = registry.schema_of_guid(schema)
        except UnknownSchemaError as error:
            return None, str(error)
        return _reader_of(found), ""

    def decode(data: bytes) -> Any:
        found = framed(data)
        if found is None:
            raise ValueError("it does not begin with a schema registry's 0 and a schema's id")
        read, fault = written(found.schema)
        if read is None:
            raise ValueError(fault)
        return read(data, found.start)

    def parse(data: bytes) -> bytes:
        raise ValueError("schemas are not registered from here: give --schema")

    header = VALUE_HEADER if side == "value" else KEY_HEADER
    return decoded_encoding("registry", decode, parse, header)


def _reader_of(schema: RegisteredSchema) -> Reader:
    """Raises `UserError` for an invalid schema."""
    if schema.kind == JSON:
        return lambda data, start: read_json(data[start:])
    if schema.kind == AVRO:
        from ottla.schema_registry.avro_reading import avro_reader
        from ottla.schema_registry.avro_schemas import avro_schema, parsed

        found = avro_schema(schema)
        reader = avro_reader(found, parsed(found, is_shown=False))
        return lambda data, start: read_avro(data[start:], reader)
    return _protobuf_reader(schema)


def encoded(data: bytes, schema: RegisteredSchema, schema_id: int) -> bytes:
    """JSON as a value of a schema, its first message if it is Protobuf, in the registry's framing.

    Raises `ValueError` for data that is not of the schema, and `UserError` for an invalid schema.
    """
    prefix = PREFIX.pack(0, schema_id)
    if schema.kind == JSON:
        read_json(data)
        return prefix + data
    if schema.kind == AVRO:
        from ottla.schema_registry.avro_schemas import avro_schema, parsed

        return prefix + written_avro(data, parsed(avro_schema(schema)))
    from ottla.schema_registry.protobuf_schemas import (
        MessageTypes,
        compiled,
        message_class,
        parsed_message,
    )

    descriptor = MessageTypes(compiled(schema.text, schema.references)).at((0,))
    if descriptor is None:
        raise ValueError("its schema has no message")
    return prefix + FIRST_MESSAGE + parsed_message(message_class(descriptor), data)


def _protobuf_reader(schema: RegisteredSchema) -> Reader:
    from ottla.schema_registry.protobuf_schemas import (
        MessageTypes,
        compiled,
        message_class,
        read_message,
    )

    types = MessageTypes(compiled(schema.text, schema.references))

    def read(data: bytes, start: int) -> Any:
        path = message_indexes(data, start)
        if path is None:
            raise ValueError("it does not say which message of its schema it is")
        descriptor = types.at(path[0])
        if descriptor is None:
            raise ValueError(f"its schema has no message {list(path[0])}")
        return read_message(message_class(descriptor), data[path[1] :])

    return read
