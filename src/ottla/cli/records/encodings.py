"""What the bytes of keys and values are: text, JSON, hexadecimal, base64 or Avro.

One encoding does all four things for its side of a record: bytes to what is printed, to a field of
`--json`, to what a path of `--where` leads into, and from an input back to bytes.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.browsing.fields import Decoder

if TYPE_CHECKING:
    from ottla.schema_registry.registry import SchemaRegistry

ENCODINGS = ("text", "json", "hex", "base64", "avro")

BASE64_SUFFIX = "_base64"
HEX_SUFFIX = "_hex"


@dataclass(frozen=True, slots=True)
class Encoding:
    """Of keys or of values. All but `json_field` raise `ValueError` for what is not of it."""

    name: str
    decode: Decoder
    show: Callable[[bytes], bytes]
    json_field: Callable[[str, bytes], tuple[str, Any]]
    """From a field's name and bytes to a member of a JSON object; the name says the form."""
    parse: Callable[[bytes], bytes]


def text_field(name: str, data: bytes) -> tuple[str, Any]:
    """Text where it is UTF-8, and base64 otherwise, under a name that says so."""
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return f"{name}{BASE64_SUFFIX}", base64.b64encode(data).decode("ascii")


def json_bytes(value: Any) -> bytes:
    """One line, as short as JSON can be; what JSON has no form for is text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _same(data: bytes) -> bytes:
    return data


def _checked_json(data: bytes) -> bytes:
    json.loads(data)
    return data


def _json_field(name: str, data: bytes) -> tuple[str, Any]:
    try:
        return name, json.loads(data)
    except ValueError:
        return text_field(f"{name}_text", data)


def _from_base64(data: bytes) -> bytes:
    return base64.b64decode(data, validate=True)


def _from_hex(data: bytes) -> bytes:
    return bytes.fromhex(data.decode("ascii"))


TEXT = Encoding("text", json.loads, _same, text_field, _same)
_JSON = Encoding(
    "json", json.loads, lambda data: json_bytes(json.loads(data)), _json_field, _checked_json
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
    side: str, name: str | None, schema: Path | None, registry: "SchemaRegistry | None" = None
) -> Encoding:
    """The encoding of a side, `key` or `value`; raises `UserError`.

    A schema is Avro's, and without it there is no Avro, but where a registry has what wrote it.
    """
    schema_option = "--schema" if side == "value" else "--key-schema"
    is_registered = registry is not None and side == "value"
    if name is None:
        name = "text" if schema is None and not is_registered else "avro"
    if name != "avro":
        if schema is not None:
            raise UserError(f"{schema_option} is for avro, and the {side} is {name}; leave one out")
        return _PLAIN[name]
    if schema is not None:
        return avro(schema)
    if registry is not None:
        return registered_avro(registry)
    raise UserError(
        f"an avro {side} needs its schema: {schema_option} FILE.avsc, or --registry URL where it "
        f"names one by id"
    )


def avro(path: Path) -> Encoding:
    """One Avro datum to a value, as `ottla load` reads it; raises `UserError`."""
    import fastavro
    import fastavro.schema

    try:
        schema = fastavro.parse_schema(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a file with an Avro schema") from error
    except (
        ValueError,
        KeyError,
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
    ) as error:
        raise UserError(f"{path}: this is no Avro schema: {error}") from error

    def decode(data: bytes) -> Any:
        return _read_avro(data, schema)

    def parse(data: bytes) -> bytes:
        stream = BytesIO()
        try:
            fastavro.schemaless_writer(stream, schema, json.loads(data))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"not of the Avro schema: {error}") from error
        return stream.getvalue()

    return _avro_encoding(decode, parse)


def registered_avro(registry: "SchemaRegistry") -> Encoding:
    """Each value by the schema in a registry whose id precedes it; such values are not made here.

    Raises `UserError` when they are read, and no registry can be asked.
    """
    from ottla.schema_registry.framing import PREFIX, prefixed_id
    from ottla.schema_registry.registry import AVRO, UnknownSchemaError
    from ottla.tables.values.avro_values import parse_avro

    @cache
    def written(schema_id: int) -> tuple[Any, str]:
        """A schema, or why there is none: the registry is asked once for either."""
        try:
            found = registry.schema(schema_id)
        except UnknownSchemaError as error:
            return None, str(error)
        if found.kind != AVRO:
            return None, f"its schema {schema_id} is {found.kind} and not Avro"
        return parse_avro(found.text, found.references), ""

    def decode(data: bytes) -> Any:
        schema_id = prefixed_id(data)
        if schema_id is None:
            raise ValueError("it does not begin with a schema registry's 0 and a schema's id")
        schema, fault = written(schema_id)
        if fault:
            raise ValueError(fault)
        return _read_avro(data[PREFIX.size :], schema)

    def parse(data: bytes) -> bytes:
        raise ValueError("a value is not registered from here: give --schema")

    return _avro_encoding(decode, parse)


def _read_avro(data: bytes, schema: Any) -> Any:
    import fastavro

    stream = BytesIO(data)
    try:
        found = fastavro.schemaless_reader(stream, schema, None)
    except (EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not of the Avro schema: {error or type(error).__name__}") from error
    if stream.tell() != len(data):
        raise ValueError(f"{len(data) - stream.tell()} bytes follow the Avro datum")
    return found


def _avro_encoding(decode: Decoder, parse: Callable[[bytes], bytes]) -> Encoding:
    def json_field(name: str, data: bytes) -> tuple[str, Any]:
        try:
            return name, json.loads(json_bytes(decode(data)))
        except ValueError:
            return f"{name}{BASE64_SUFFIX}", base64.b64encode(data).decode("ascii")

    return Encoding("avro", decode, lambda data: json_bytes(decode(data)), json_field, parse)
