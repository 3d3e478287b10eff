"""What decodes the values of a table's records, as the table's marker has it pinned.

A decoder takes a column of values and gives a column of structs, together with the values that it
cannot decode and why: each is decoded apart from its neighbours, whatever is broken in it.
A null value (a tombstone) is a null struct, not a fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.base.errors import UserError
from ottla.schema_registry.framing import KEY_HEADER, PREFIX, VALUE_HEADER, prefixed_id
from ottla.schema_registry.registry import RegistryLogin


class ValueFormat(Enum):
    """What the values are taken for."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    TEXT = "text"


class Envelope(Enum):
    """What stands around the row in a value."""

    NONE = "none"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a table's values are decoded.

    `schema` is in Spark's words (`values.schema`) for JSON, Avro's own JSON for Avro, and a
    descriptor set in base64 for Protobuf, which `message` is in; made of a subject, that is in
    Spark's words too. With
    `confluent` the five bytes that serializers of a schema registry put in front are taken off;
    `schema_id` is then the only id that may stand in them. With `registry` (an http address, or a
    directory) each value is read with the schema that it was written with, whose id or GUID it
    has, and shown by `schema`, the table's own. With `subject`, `schema` is made of the versions
    that are registered under it, and no field of a value is left out. With an `envelope` the
    schema of JSON is that of the rows within.
    """

    format: ValueFormat
    schema: str
    confluent: bool = False
    schema_id: int | None = None
    registry: str = ""
    subject: str = ""
    message: str = ""
    """The name of Protobuf's message; empty: the schema's only one."""
    envelope: Envelope = Envelope.NONE
    is_rescuing: bool = False
    """Whether what the schema of JSON does not name is kept, in one more column `_rescued`."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """`rows` has one struct for each value, null where `faults` (by index) says why."""

    rows: Any
    faults: Mapping[int, str]
    truncations: frozenset[int] = frozenset()
    """Indices of values that say that the source was emptied: no row, and no fault."""


class ValueDecoder(Protocol):
    """See the module."""

    @property
    def type(self) -> Any:
        """The Arrow struct type of the rows."""

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        """A column of `binary`, of which any may be null, and the column of their headers, where a
        header may name the schema."""


def open_decoder(decoding: Decoding, login: RegistryLogin | None = None) -> ValueDecoder:
    """The decoder for that; raises `UserError` when the schema does not say what it takes.

    `login`: for the registry that is asked when values are decoded.
    """
    decoder = open_key_decoder(decoding, login, VALUE_HEADER)
    require(
        decoding.format not in (ValueFormat.AVRO, ValueFormat.TEXT) or _is_struct(decoder.type),
        "the Avro schema's outermost type must be a record",
    )
    return decoder


def _is_struct(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_struct(kind))


def open_key_decoder(
    decoding: Decoding, login: RegistryLogin | None = None, header: str = KEY_HEADER
) -> ValueDecoder:
    """As `open_decoder`, of keys: these may be text, and one number or text of Avro's.

    `header`: the name of the header that may name the schema.
    """
    if decoding.envelope is Envelope.DEBEZIUM:
        from ottla.tables.values.debezium import DebeziumDecoder, envelope_decoding

        return DebeziumDecoder(open_decoder(envelope_decoding(decoding), login))
    if decoding.registry:
        from ottla.tables.values.registered import open_registered

        return open_registered(decoding, login, header)
    decoder: ValueDecoder
    match decoding.format:
        case ValueFormat.JSON:
            from ottla.tables.values.json_values import JsonDecoder

            decoder = JsonDecoder(decoding.schema, is_rescuing=decoding.is_rescuing)
        case ValueFormat.AVRO:
            from ottla.tables.values.avro_values import AvroDecoder

            decoder = AvroDecoder(decoding.schema)
        case ValueFormat.PROTOBUF:
            from ottla.tables.values.protobuf_values import ProtobufDecoder

            decoder = ProtobufDecoder(decoding.schema, decoding.message)
        case ValueFormat.TEXT:
            from ottla.tables.values.text_values import TextDecoder

            decoder = TextDecoder()
    return Prefixed(decoder, decoding.schema_id) if decoding.confluent else decoder


def check_decoding(decoding: Decoding) -> None:
    """Raises `UserError` when it does not say which schema wrote a value."""
    is_avro = decoding.format is ValueFormat.AVRO
    require(
        not (decoding.format is ValueFormat.PROTOBUF and decoding.confluent)
        or bool(decoding.registry),
        "Protobuf values are read by the schema that wrote them: name the registry (--registry URL "
        "or DIRECTORY) in place of --confluent",
    )
    require(
        not (is_avro and decoding.confluent)
        or bool(decoding.registry)
        or decoding.schema_id is not None,
        "Avro values are read by the schema that wrote them, and --confluent alone does not say "
        "which: name the registry (--registry URL or DIRECTORY), or the only id (--schema-id ID)",
    )


class Prefixed:
    """Takes off the prefix of Confluent's wire format, and decodes what follows."""

    def __init__(self, inner: ValueDecoder, schema_id: int | None) -> None:
        self._inner = inner
        self._schema_id = schema_id

    @property
    def type(self) -> Any:
        return self._inner.type

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        import pyarrow as pa

        faults: dict[int, str] = {}
        bare: list[bytes | None] = []
        for index, value in enumerate(values.to_pylist()):
            fault = None if value is None else self._fault(value)
            if fault is not None:
                faults[index] = fault
            bare.append(None if value is None or fault is not None else value[PREFIX.size :])
        decoded = self._inner.decode(pa.array(bare, pa.binary()))
        return Decoded(decoded.rows, {**faults, **decoded.faults})

    def _fault(self, value: bytes) -> str | None:
        schema_id = prefixed_id(value)
        if schema_id is None:
            return "it does not begin with the prefix of Confluent's wire format (0, schema id)"
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
