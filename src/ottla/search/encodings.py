"""Encodings of keys and values: text, JSON, hexadecimal, base64, Avro, Protobuf, or by a registry.

An encoding converts bytes to printed text, to a field of `--json` and to the value that a path of
`--where` refers to, and an input back to bytes.
"""

import base64
import json
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.search.fields import Decoder, FieldReader, with_header

if TYPE_CHECKING:
    from ottla.record.record import Record
    from ottla.schema_registry.avro_reading import AvroReader
    from ottla.schema_registry.registry import SchemaRegistry

ENCODINGS = ("text", "json", "hex", "base64", "avro", "protobuf", "registry")
FilePath = str | os.PathLike[str]

_PROTOBUF_SUFFIXES = (".proto", ".desc", ".protoset", ".binpb", ".pb")

BASE64_SUFFIX = "_base64"
HEX_SUFFIX = "_hex"


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding of keys or values. All but `json_field` raise `ValueError` for data not in it."""

    name: str
    decode: Decoder
    show: Callable[[bytes], bytes]
    json_field: Callable[[str, bytes], tuple[str, Any]]
    """From a field's name and bytes to a member of a JSON object; the name says the form."""
    parse: Callable[[bytes], bytes]
    schema_header: str = ""
    """The header that may name the schema of the data."""

    def framed(self, data: bytes, record: "Record") -> bytes:
        """Returns the data of a record in the form that the functions take."""
        return with_header(data, record.headers, self.schema_header)


def field_reader(key: Encoding, value: Encoding) -> FieldReader:
    headers = {"key": key.schema_header, "value": value.schema_header}
    return FieldReader(key.decode, value.decode, headers)


def text_field(name: str, data: bytes) -> tuple[str, Any]:
    """Returns UTF-8 as text, and other bytes as base64, under a name that says which."""
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return f"{name}{BASE64_SUFFIX}", base64.b64encode(data).decode("ascii")


def json_bytes(value: Any) -> bytes:
    """Returns one line of compact JSON; values that JSON cannot represent become text, and numbers
    that it does not have (NaN and infinities) null.
    """
    try:
        return _dumped(value).encode()
    except ValueError:
        return _dumped(_with_finite_numbers(value)).encode()


_dumped = partial(
    json.dumps,
    ensure_ascii=False,
    allow_nan=False,
    separators=(",", ":"),
    default=lambda value: _plain(value),
)


def _with_finite_numbers(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _with_finite_numbers(one) for name, one in value.items()}
        case list() | tuple():
            return [_with_finite_numbers(one) for one in value]
    return value


def read_json(data: bytes | str) -> Any:
    """Parses JSON; raises `ValueError`, also for NaN and infinities, which Python accepts."""
    from ottla.base.json_texts import refuse_constant  # only where JSON is read

    text = data if isinstance(data, str) else data.decode()
    return json.loads(text, parse_constant=refuse_constant)


_MINUTE = timedelta(minutes=1)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime) and (value.utcoffset() or timedelta()) % _MINUTE:
        value = value.astimezone(UTC)  # RFC 3339 has no offsets with seconds, which old times have
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _same(data: bytes) -> bytes:
    return data


def _checked_json(data: bytes) -> bytes:
    read_json(data)
    return data


def _json_field(name: str, data: bytes) -> tuple[str, Any]:
    try:
        return name, read_json(data)
    except ValueError:
        return text_field(f"{name}_text", data)


def _from_base64(data: bytes) -> bytes:
    return base64.b64decode(data, validate=True)


def _from_hex(data: bytes) -> bytes:
    return bytes.fromhex(data.decode("ascii"))


TEXT = Encoding("text", json.loads, _same, text_field, _same)
_JSON = Encoding(
    "json", read_json, lambda data: json_bytes(read_json(data)), _json_field, _checked_json
)
_HEX = Encoding(
    "hex",
    json.loads,
    lambda data: data.hex().encode(),
    lambda name, data: (f"{name}{HEX_SUFFIX}", data.hex()),
    _from_hex,
)
_BASE64 = Encoding(
    "base64",
    json.loads,
    base64.b64encode,
    lambda name, data: (f"{name}{BASE64_SUFFIX}", base64.b64encode(data).decode("ascii")),
    _from_base64,
)
_PLAIN = {one.name: one for one in (TEXT, _JSON, _HEX, _BASE64)}


def encoding_of(
    side: str,
    name: str | None,
    schema: FilePath | None,
    registry: "SchemaRegistry | None" = None,
    message: str | None = None,
) -> Encoding:
    """Returns the encoding of a side, `key` or `value`; raises `UserError`.

    A schema option is for Avro and Protobuf, which need one, unless a registry has the writer's
    schema. `message` is a type of a Protobuf schema with several.
    """
    schema_option = "--schema" if side == "value" else "--key-schema"
    if name is None and schema is not None:
        name = kind_of_schema(schema)
    if name is None:
        name = "registry" if registry is not None and side == "value" else "text"
    if schema is not None and name not in ("avro", "protobuf"):
        raise UserError(
            f"{schema_option} is for avro and protobuf, but the {side} is {name}; omit one of them"
        )
    if message is not None and name != "protobuf":
        raise UserError(f"a message is a type of a Protobuf schema, but the {side} is {name}")
    if name in _PLAIN:
        return _PLAIN[name]
    if schema is not None:
        return avro(schema) if name == "avro" else protobuf(schema, message or "")
    if registry is not None:
        from ottla.search.registered import registered

        return registered(side, registry)
    if name == "registry":
        raise UserError(f"a {side} that names its schema by id needs --registry URL-OR-DIRECTORY")
    wanted = f"{schema_option} {'FILE.avsc' if name == 'avro' else 'FILE.proto'}"
    raise UserError(
        f"{'an' if name == 'avro' else 'a'} {name} {side} needs its schema: {wanted}, or "
        f"--registry URL where it names one by id"
    )


def kind_of_schema(path: FilePath) -> str:
    """The encoding that a schema file is for, by its name."""
    return "protobuf" if os.fspath(path).endswith(_PROTOBUF_SUFFIXES) else "avro"


def avro(path: FilePath) -> Encoding:
    """Returns the decoder for one Avro datum, as in `ottla load`; raises `UserError`."""
    from ottla.schema_registry.avro_reading import avro_reader
    from ottla.schema_registry.avro_schemas import avro_schema, parsed
    from ottla.schema_registry.registry import RegisteredSchema

    try:
        with open(path, encoding="utf-8") as file:
            schema = avro_schema(RegisteredSchema(text=file.read()))
            written = parsed(schema)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a file with an Avro schema") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except ValueError as error:
        raise UserError(f"{path}: this is not an Avro schema: {error}") from error

    reader = avro_reader(schema, written)
    return decoded_encoding(
        "avro", lambda data: read_avro(data, reader), lambda data: written_avro(data, written)
    )


def protobuf(path: FilePath, message: str = "") -> Encoding:
    """Returns the encoding of one message of a `.proto` file or a descriptor set, as in `ottla
    load`; without a name the schema's only message. Raises `UserError`.
    """
    from pathlib import Path

    from ottla.schema_registry.protobuf_schemas import (
        MessageTypes,
        descriptor_set,
        message_class,
        parsed_message,
        read_message,
    )

    try:
        kind = message_class(MessageTypes(descriptor_set(Path(path))).named(message))
    except UserError as error:
        raise UserError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error

    def parse(data: bytes) -> bytes:
        return parsed_message(kind, data)

    return decoded_encoding("protobuf", lambda data: read_message(kind, data), parse)


def written_avro(data: bytes, schema: Any) -> bytes:
    """One Avro datum of a parsed schema, from its JSON; raises `ValueError`."""
    import fastavro

    stream = BytesIO()
    try:
        fastavro.schemaless_writer(stream, schema, json.loads(data))
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not of the Avro schema: {error}") from error
    return stream.getvalue()


def read_avro(data: bytes, reader: "AvroReader") -> Any:
    """Raises `ValueError`."""
    from ottla.schema_registry.avro_reading import BROKEN

    try:
        return reader.read(data)
    except BROKEN as error:
        raise ValueError(f"not of the Avro schema: {error or type(error).__name__}") from error


def decoded_encoding(
    name: str, decode: Decoder, parse: Callable[[bytes], bytes], schema_header: str = ""
) -> Encoding:
    """An encoding whose data is shown as JSON."""

    def json_field(field: str, data: bytes) -> tuple[str, Any]:
        try:
            return field, json.loads(json_bytes(decode(data)))
        except ValueError:
            return f"{field}{BASE64_SUFFIX}", base64.b64encode(data).decode("ascii")

    return Encoding(
        name, decode, lambda data: json_bytes(decode(data)), json_field, parse, schema_header
    )
