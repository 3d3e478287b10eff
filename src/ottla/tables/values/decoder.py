"""What decodes the values of a table's records, as the table's marker has it pinned.

A decoder takes a column of values and gives a column of structs, together with the values that it
cannot decode and why: each is decoded apart from its neighbours, whatever is broken in it.
A null value (a tombstone) is a null struct, not a fault.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.base.errors import UserError

CONFLUENT_PREFIX = struct.Struct(
    ">b"  # magic byte, 0
    "i"  # id of the schema in the registry
)
assert CONFLUENT_PREFIX.size == 5


class ValueFormat(Enum):
    """What the values are taken for."""

    JSON = "json"
    AVRO = "avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a table's values are decoded.

    `schema` is in Spark's words (`values.schema`) for JSON, and Avro's own JSON for Avro. With
    `confluent` the five bytes that serializers of a schema registry put in front are taken off;
    `schema_id` is then the only id that may stand in them.
    """

    format: ValueFormat
    schema: str
    confluent: bool = False
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """`rows` has one struct for each value, null where `faults` (by index) says why."""

    rows: Any
    faults: Mapping[int, str]


class ValueDecoder(Protocol):
    """See the module."""

    @property
    def type(self) -> Any:
        """The Arrow struct type of the rows."""

    def decode(self, values: Any) -> Decoded:
        """A column of `binary`, of which any may be null."""


def open_decoder(decoding: Decoding) -> ValueDecoder:
    """The decoder for that; raises `UserError` when the schema does not say what it takes."""
    decoder: ValueDecoder
    match decoding.format:
        case ValueFormat.JSON:
            from ottla.tables.values.json_values import JsonDecoder

            decoder = JsonDecoder(decoding.schema)
        case ValueFormat.AVRO:
            from ottla.tables.values.avro_values import AvroDecoder

            decoder = AvroDecoder(decoding.schema)
    return Prefixed(decoder, decoding.schema_id) if decoding.confluent else decoder


class Prefixed:
    """Takes off the prefix of Confluent's wire format, and decodes what follows."""

    def __init__(self, inner: ValueDecoder, schema_id: int | None) -> None:
        self._inner = inner
        self._schema_id = schema_id

    @property
    def type(self) -> Any:
        return self._inner.type

    def decode(self, values: Any) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        bare: list[bytes | None] = []
        for index, value in enumerate(values.to_pylist()):
            fault = None if value is None else self._fault(value)
            if fault is not None:
                faults[index] = fault
            bare.append(
                None if value is None or fault is not None else value[CONFLUENT_PREFIX.size :]
            )
        decoded = self._inner.decode(pa.array(bare, pa.binary()))
        return Decoded(decoded.rows, {**faults, **decoded.faults})

    def _fault(self, value: bytes) -> str | None:
        if len(value) < CONFLUENT_PREFIX.size or value[0] != 0:
            return "it does not begin with the prefix of Confluent's wire format (0, schema id)"
        _, schema_id = CONFLUENT_PREFIX.unpack_from(value)
        if self._schema_id is not None and schema_id != self._schema_id:
            return f"it was written with schema id {schema_id}, not {self._schema_id}"
        return None


def merged(count: int, rows: Any, places: list[int], kind: Any) -> Any:
    """A column of `count` structs: `rows` at `places` (ascending), null elsewhere."""
    import numpy as np
    import pyarrow as pa

    if len(places) == count:
        return rows
    indices = np.zeros(count, dtype=np.int64)
    is_null = np.ones(count, dtype=bool)
    indices[places] = np.arange(len(places))
    is_null[places] = False
    if not places:
        return pa.nulls(count, kind)
    return rows.take(pa.array(indices, mask=is_null))


def require(holds: bool, words: str) -> None:
    """Raises `UserError` with the words if it does not hold."""
    if not holds:
        raise UserError(words)
