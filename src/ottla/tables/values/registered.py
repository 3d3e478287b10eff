"""Values that name their schema in a registry, each read with the one that it was written with.

They are shown by the table's own schema, as Avro resolves the two: fields are matched by name, what
a value lacks takes the default, numbers become wider. A value that cannot be resolved so has a
fault that says why. What the table's schema does not name is left out if the schema was given; if
it was made of the registry's, that is a fault too.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.framing import PREFIX, header_guid, prefixed_id
from ottla.schema_registry.opening import open_registry
from ottla.schema_registry.registry import (
    AVRO,
    RegisteredSchema,
    RegistryLogin,
    SchemaRegistry,
    UnknownSchemaError,
)
from ottla.tables.values.avro_growth import avro_schema, grown, uncovered
from ottla.tables.values.avro_values import AvroDecoder, parse_avro
from ottla.tables.values.decoder import Decoding, ValueDecoder, ValueFormat, require


def open_registered(decoding: Decoding, login: RegistryLogin | None) -> ValueDecoder:
    """The decoder for values whose schemas are in a registry; raises `UserError`."""
    require(decoding.format is ValueFormat.AVRO, "--registry is for --decode avro")
    registry = open_registry(decoding.registry, login)
    return RegisteredAvroDecoder(decoding.schema, registry, is_whole=bool(decoding.subject))


def schema_of_subject(registry: SchemaRegistry, subject: str) -> str:
    """The schema in which values of all a subject's versions can be shown; raises `UserError`."""
    versions = registry.versions(subject)
    require(bool(versions), f"subject {subject} has no version in the registry")
    for one in versions:
        require(one.kind == AVRO, f"subject {subject} is {one.kind}, and --decode avro was asked")
    return grown(versions)


class RegisteredAvroDecoder(AvroDecoder):
    """See the module; `schema` is the table's own, `is_whole` whether no field is left out."""

    def __init__(self, schema: str, registry: SchemaRegistry, *, is_whole: bool) -> None:
        super().__init__(schema)
        self._shown = avro_schema(RegisteredSchema(text=schema))
        self._registry = registry
        self._is_whole = is_whole
        self._written: dict[int | str, tuple[Any, str | None]] = {}

    def _all(
        self, values: Iterable[bytes | None], headers: Any
    ) -> Iterator[tuple[Any, str | None]]:
        of_each = repeat(None) if headers is None else headers.to_pylist()
        for value, of_value in zip(values, of_each, strict=False):
            yield (None, None) if value is None else self._registered(value, header_guid(of_value))

    def _registered(self, value: bytes, guid: str | None) -> tuple[Any, str | None]:
        found = prefixed_id(value) if guid is None else guid
        if found is None:
            return None, (
                "it does not begin with the prefix of Confluent's wire format (0, schema id), and "
                "no header names its schema"
            )
        if found not in self._written:
            self._written[found] = self._find(found)
        written, fault = self._written[found]
        if fault is not None:
            return None, fault
        row, fault = self._one(value if guid else value[PREFIX.size :], written)
        return row, None if fault is None else f"written with schema {found}: {fault}"

    def _find(self, schema: int | str) -> tuple[Any, str | None]:
        """A writer's schema, or why there is none; raises `UserError` when none can be asked."""
        try:
            if isinstance(schema, int):
                found = self._registry.schema(schema)
            else:
                found = self._registry.schema_of_guid(schema)
        except UnknownSchemaError as error:
            return None, f"it was written with schema {schema}: {error}"
        if found.kind != AVRO:
            return None, f"it was written with schema {schema}, which is {found.kind} and not Avro"
        return self._parsed(schema, found)

    def _parsed(self, schema: int | str, found: RegisteredSchema) -> tuple[Any, str | None]:
        try:
            missing = uncovered(avro_schema(found), self._shown, is_whole=self._is_whole)
            written = parse_avro(found.text, found.references)
        except UserError as error:
            return None, f"it was written with schema {schema}: {error}"
        if missing is not None:
            return None, f"it was written with schema {schema}: {missing}"
        return written, None
