"""Decodes JSON values that name their schema in a registry. JSON describes itself; the schema is
looked up only to reject values of schemas that do not match the table.
"""

from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.framing import VALUE_HEADER, framed, schema_headers
from ottla.schema_registry.registry import JSON, RegisteredSchema, SchemaRegistry
from ottla.tables.values.decoder import Decoded
from ottla.tables.values.growth import field_without_column, not_in_the_table
from ottla.tables.values.json_schema import json_schema_type
from ottla.tables.values.json_values import JsonDecoder
from ottla.tables.values.writers import UNFRAMED, Writers


class RegisteredJsonDecoder:
    """See the module; with `is_whole` each field of a value's schema must have a column."""

    def __init__(
        self,
        inner: JsonDecoder,
        registry: SchemaRegistry,
        *,
        is_whole: bool,
        header: str = VALUE_HEADER,
    ) -> None:
        self._inner = inner
        self._header = header
        self._is_whole = is_whole
        self._writers = Writers(registry, JSON, self._checked)

    @property
    def type(self) -> Any:
        return self._inner.type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        bare: list[bytes | None] = []
        named = schema_headers(headers, self._header, len(values))
        for index, (value, header) in enumerate(zip(values.to_pylist(), named, strict=True)):
            found = None if value is None else framed(value, header)
            fault = None
            if value is not None:
                fault = UNFRAMED if found is None else self._writers.of(found.schema)[1]
            if fault:
                faults[index] = fault
            bare.append(None if fault or found is None else value[found.start :])
        decoded = self._inner.decode(pa.array(bare, pa.binary()))
        return Decoded(decoded.rows, {**faults, **decoded.faults})

    def _checked(self, found: RegisteredSchema) -> RegisteredSchema:
        if self._is_whole:
            missing = field_without_column(json_schema_type(found), self.type)
            if missing is not None:
                raise UserError(not_in_the_table(missing))
        return found
