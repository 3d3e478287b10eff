"""Creates the decoder for a decoding."""

from typing import Any

from ottla.schema_registry.framing import KEY_HEADER, PREFIX, VALUE_HEADER, prefixed_id
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.values.decoder import (
    Decoded,
    Decoding,
    Envelope,
    ValueDecoder,
    ValueFormat,
    require,
)


def open_decoder(decoding: Decoding, login: RegistryLogin | None = None) -> ValueDecoder:
    """The decoder of values; raises `UserError` if the schema is unsuitable.

    `login` is for the registry, if values are decoded with one.
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
    """Like `open_decoder`, for keys, which may also be text, or a single Avro number or string.

    `header` is the name of the header that may name the schema.
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
    """Raises `UserError` if the schema with which values were written cannot be determined."""
    is_avro = decoding.format is ValueFormat.AVRO
    require(
        not (decoding.format is ValueFormat.PROTOBUF and decoding.confluent)
        or bool(decoding.registry),
        "Protobuf values are read with the writer's schema: name the registry (--registry URL "
        "or DIRECTORY) in place of --confluent",
    )
    require(
        not (is_avro and decoding.confluent)
        or bool(decoding.registry)
        or decoding.schema_id is not None,
        "Avro values are read with the writer's schema, which --confluent alone does not "
        "determine: name the registry (--registry URL or DIRECTORY), or the id (--schema-id ID)",
    )


class Prefixed:
    """Removes the prefix of Confluent's wire format, and decodes the rest."""

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
