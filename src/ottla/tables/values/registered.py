"""Decodes values that name their schema in a registry, each with its writer's schema.

Values are converted to the table's schema by Avro's resolution rules: fields are matched by name,
missing fields get the default, numbers are widened. A value that cannot be resolved is a fault.
Fields outside of the table's schema are dropped if that schema was given; if it was made from the
registry's, they are a fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.avro_reading import AvroReader
from ottla.schema_registry.avro_schemas import avro_schema
from ottla.schema_registry.framing import VALUE_HEADER, framed, schema_headers
from ottla.schema_registry.opening import open_registry
from ottla.schema_registry.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    RegistryLogin,
    SchemaRegistry,
)
from ottla.tables.values.avro_growth import grown, uncovered
from ottla.tables.values.avro_values import AvroDecoder, read_datum
from ottla.tables.values.decoder import Decoding, ValueDecoder, ValueFormat, require
from ottla.tables.values.schema import schema_text
from ottla.tables.values.writers import UNFRAMED, Writers

_KINDS = {ValueFormat.AVRO: AVRO, ValueFormat.JSON: JSON, ValueFormat.PROTOBUF: PROTOBUF}


def open_registered(
    decoding: Decoding, login: RegistryLogin | None, header: str = VALUE_HEADER
) -> ValueDecoder:
    """The decoder for values whose schemas are in a registry; raises `UserError`.

    Values name schemas by ids, or by GUIDs in the header `header`.
    """
    registry, is_whole = open_registry(decoding.registry, login), bool(decoding.subject)
    match decoding.format:
        case ValueFormat.AVRO:
            return RegisteredAvroDecoder(
                decoding.schema, registry, is_whole=is_whole, header=header
            )
        case ValueFormat.PROTOBUF:
            from ottla.tables.values.registered_protobuf import RegisteredProtobufDecoder

            return RegisteredProtobufDecoder(
                decoding.schema, decoding.message, registry, is_whole=is_whole, header=header
            )
        case ValueFormat.JSON:
            from ottla.tables.values.json_values import JsonDecoder
            from ottla.tables.values.registered_json import RegisteredJsonDecoder

            inner = JsonDecoder(decoding.schema, is_rescuing=decoding.is_rescuing)
            return RegisteredJsonDecoder(inner, registry, is_whole=is_whole, header=header)
        case ValueFormat.TEXT:
            raise UserError("text has no schema in a registry: leave out --registry")


def with_schema_of_subject(decoding: Decoding, registry: SchemaRegistry) -> Decoding:
    """The decoding with a schema for the values of all versions of its subject.

    Raises `UserError`.
    """
    versions = registry.versions(decoding.subject)
    require(bool(versions), f"subject {decoding.subject} has no version in the registry")
    kind = _KINDS[decoding.format]
    for one in versions:
        require(
            one.kind == kind,
            f"subject {decoding.subject} is {one.kind}, but --decode {decoding.format.value} was "
            f"given",
        )
    return _of_versions(decoding, versions)


def _of_versions(decoding: Decoding, versions: Sequence[RegisteredSchema]) -> Decoding:
    if decoding.format is ValueFormat.AVRO:
        return replace(decoding, schema=grown(versions))
    if decoding.format is ValueFormat.JSON:
        from ottla.tables.values.json_schema import type_of_versions

        return replace(decoding, schema=schema_text(type_of_versions(versions)))
    from ottla.tables.values.registered_protobuf import message_of_subject

    kind, message = message_of_subject(versions, decoding.message)
    return replace(decoding, schema=schema_text(kind), message=message)


class RegisteredAvroDecoder(AvroDecoder):
    """See the module; `schema` is the table's, `is_whole`: no field may be dropped."""

    def __init__(
        self,
        schema: str,
        registry: SchemaRegistry,
        *,
        is_whole: bool,
        header: str = VALUE_HEADER,
    ) -> None:
        super().__init__(schema)
        self._is_whole = is_whole
        self._header = header
        self._writers = Writers(registry, AVRO, self._reader)

    def _all(
        self, values: Sequence[bytes | None], headers: Any
    ) -> Iterator[tuple[Any, str | None]]:
        named = schema_headers(headers, self._header, len(values))
        for value, header in zip(values, named, strict=True):
            yield (None, None) if value is None else self._registered(value, header)

    def _registered(self, value: bytes, header: bytes | None) -> tuple[Any, str | None]:
        found = framed(value, header)
        if found is None:
            return None, UNFRAMED
        written, fault = self._writers.of(found.schema)
        if written is None:
            return None, fault
        row, broken = read_datum(value[found.start :], written)
        return row, None if broken is None else f"written with schema {found.schema}: {broken}"

    def _reader(self, found: RegisteredSchema) -> AvroReader:
        written = avro_schema(found)
        missing = uncovered(written, self._shown, is_whole=self._is_whole)
        if missing is not None:
            raise UserError(missing)
        return self.reader(written)
