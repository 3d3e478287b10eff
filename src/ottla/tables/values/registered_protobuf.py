"""Decodes Protobuf values that name their schema in a registry, each with its own message type.

Fields are matched by name. If a field has the number of another one that its schema no longer has,
it was probably renamed: such values are rejected, because the old column would silently be empty.
"""

from collections.abc import Sequence
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.framing import VALUE_HEADER, framed_message, schema_headers
from ottla.schema_registry.protobuf_schemas import MessageTypes, compiled
from ottla.schema_registry.registry import PROTOBUF, RegisteredSchema, SchemaRegistry
from ottla.tables.values.decoder import Decoded
from ottla.tables.values.growth import (
    ConflictError,
    field_without_column,
    merged_type,
    not_in_the_table,
)
from ottla.tables.values.protobuf_columns import message_type
from ottla.tables.values.protobuf_values import Messages, descriptors_of, outermost_type
from ottla.tables.values.schema import parse_schema
from ottla.tables.values.writers import UNFRAMED, Writers

Path = tuple[int | str, tuple[int, ...]]
"""A schema, and the path to the message in it."""


def message_of_subject(versions: Sequence[RegisteredSchema], message: str) -> tuple[Any, str]:
    """The columns for a subject's versions, and the message's full name; raises `UserError`.

    Without a name it is the first message of the newest version. Versions that conflict with
    earlier ones are left out.
    """
    newest = _types_of(versions[-1])
    found = newest.named(message) if message else newest.at((0,))
    if found is None:
        raise UserError("the Protobuf schema has no message")
    name = str(found.full_name)
    kind: Any = None
    accepted: list[Any] = []
    for version in versions:
        try:
            descriptor = _types_of(version).named(name)
        except UserError:
            continue  # older than the message
        try:
            if any(renamed(one, descriptor) for one in accepted):
                continue
            now = outermost_type(descriptor)
            kind = now if kind is None else merged_type(kind, now)
        except ConflictError:
            continue
        accepted.append(descriptor)
    return kind, name


def renamed(before: Any, now: Any, within: tuple[str, ...] = ()) -> str | None:
    """Describes a field that was probably renamed between two versions; `None` if there is none."""
    if now.full_name in within:
        return None
    of_before, of_now = before.fields_by_name, now.fields_by_name
    for field in now.fields:
        other = before.fields_by_number.get(field.number)
        if other is not None and field.name not in of_before and other.name not in of_now:
            return f"{other.name} (number {other.number}) is {field.name} in it"
        same = of_before.get(field.name)
        if field.message_type is not None and same is not None and same.message_type is not None:
            found = renamed(same.message_type, field.message_type, (*within, now.full_name))
            if found is not None:
                return found
    return None


def _types_of(schema: RegisteredSchema) -> MessageTypes:
    return MessageTypes(compiled(schema.text, schema.references))


class RegisteredProtobufDecoder:
    """See the module; with `is_whole` `schema` has the columns, and no field may be dropped.

    Otherwise `schema` is the given descriptor set, and other fields are dropped.
    """

    def __init__(
        self,
        schema: str,
        message: str,
        registry: SchemaRegistry,
        *,
        is_whole: bool,
        header: str = VALUE_HEADER,
    ) -> None:
        self._given = None if is_whole else descriptors_of(schema).named(message)
        self._type = parse_schema(schema) if is_whole else outermost_type(self._given)
        self._name = message if self._given is None else self._given.full_name
        self._header = header
        self._writers = Writers(registry, PROTOBUF, _types_of)
        self._readers: dict[Path, tuple[Messages | None, str]] = {}

    @property
    def type(self) -> Any:
        return self._type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        faults: dict[int, str] = {}
        groups: dict[Path, tuple[list[int], list[bytes]]] = {}
        named = schema_headers(headers, self._header, len(values))
        for index, (value, header) in enumerate(zip(values.to_pylist(), named, strict=True)):
            if value is None:
                continue
            found = framed_message(value, header)
            if found is None:
                faults[index] = UNFRAMED
                continue
            places, bare = groups.setdefault((found.schema, found.indexes), ([], []))
            places.append(index)
            bare.append(value[found.start :])
        parts = [self._rows(path, *group, faults) for path, group in groups.items()]
        return Decoded(_put_together(len(values), parts, self._type), faults)

    def _rows(
        self, path: Path, places: list[int], values: list[bytes], faults: dict[int, str]
    ) -> tuple[Any, list[int]]:
        import pyarrow as pa

        if path not in self._readers:
            self._readers[path] = self._reader(*path)
        reader, fault = self._readers[path]
        if reader is None:
            faults.update(dict.fromkeys(places, fault))
            return pa.nulls(0, self._type), []
        return reader.rows(values, places, faults)

    def _reader(self, schema: int | str, indexes: tuple[int, ...]) -> tuple[Messages | None, str]:
        """The parser of a message or a fault; raises `UserError` if the registry fails."""
        types, fault = self._writers.of(schema)
        if types is None:
            return None, fault
        written = f"it was written with schema {schema}"
        descriptor = types.at(indexes)
        if descriptor is None:
            return None, f"{written}, which has no message {list(indexes)}"
        if descriptor.full_name != self._name:
            return None, f"it is a {descriptor.full_name}, but the table has {self._name}"
        if self._given is not None:
            other = renamed(self._given, descriptor)
            if other is not None:
                return None, f"{written}: {other}"
        try:
            if self._given is None:
                missing = field_without_column(message_type(descriptor), self._type)
                if missing is not None:
                    return None, f"{written}: {not_in_the_table(missing)}"
            return Messages(descriptor, self._type), ""
        except UserError as error:
            return None, f"{written}: {error}"


def _put_together(count: int, parts: list[tuple[Any, list[int]]], kind: Any) -> Any:
    """Combines columns of some structs, with their places, to a column of `count` structs."""
    import numpy as np
    import pyarrow as pa

    rows = pa.concat_arrays([pa.nulls(1, kind), *(one for one, _ in parts)])
    if len(parts) == 1 and len(rows) == count + 1:
        return rows.slice(1)
    indices = np.zeros(count, dtype=np.int64)
    places = [place for _, of_part in parts for place in of_part]
    indices[places] = np.arange(1, len(places) + 1)
    return rows.take(pa.array(indices))
