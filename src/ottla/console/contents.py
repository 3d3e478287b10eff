"""Keys, values and headers as shown on a page: decoded, or as JSON, text, hexadecimal or base64."""

import base64
import json
import re
from typing import Any
from urllib.parse import quote

from ottla.base.patterns import lazy_pattern
from ottla.console.decoding import BASE64, HEX, JSON, TEXT, Decoded, RecordDecoding
from ottla.console.pages import Fields
from ottla.search.encodings import json_bytes
from ottla.search.fields import Entry

LIST_SIZE = 400
"""The maximum bytes of a value in a list."""
WHOLE_SIZE = 1 << 20
"""The maximum bytes of a value on its own page; the rest can be downloaded."""

PRETTY_SIZE = 4 * WHOLE_SIZE

_INVISIBLE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, characters that change text direction, and lone surrogates."""


def shown(
    data: bytes | None, size: int = LIST_SIZE, *, is_pretty: bool = False, choice: str = ""
) -> Fields:
    """The fields of a key or value: `kind` is null, json, text, hex or base64; `is_cut` if
    truncated. `choice` is one of the latter three, or anything else by the bytes.
    """
    if data is None:
        return _fields("null", "null", 0)
    if choice == BASE64:
        most = size * 3 // 4
        encoded = base64.b64encode(data[:most]).decode()
        return _fields(BASE64, encoded, len(data), is_cut=len(data) > most)
    text = None if choice == HEX else _text(data, choice)
    if text is None:
        most = size // 2
        return _fields(HEX, data[:most].hex(" "), len(data), is_cut=len(data) > most)
    fields = _fields(TEXT, "", len(data), is_cut=len(data) > size)
    if choice == JSON or (choice != TEXT and text[:1] in "{[" and text):
        found = _json(text) if len(data) <= WHOLE_SIZE else None
        fields |= {"kind": JSON} if found is not None else {}
        pretty = _indented(found) if is_pretty and found is not None else None
        if pretty is not None:
            # Indentation may make the text longer than `size`.
            return {**fields, "text": _INVISIBLE.sub(_escape, pretty)}
    return {**fields, "text": _INVISIBLE.sub(_escape, text[:size])}


def _text(data: bytes, choice: str) -> str | None:
    """UTF-8; other bytes in it are escaped if a text is asked for."""
    try:
        return data.decode("utf-8", "backslashreplace" if choice == TEXT else "strict")
    except UnicodeDecodeError:
        return None


def _fields(kind: str, text: str, size: int, *, is_cut: bool = False) -> Fields:
    """`by` says how it was decoded, `fault` why it was not; both are empty if it was not tried."""
    return {"kind": kind, "text": text, "size": size, "is_cut": is_cut, "by": "", "fault": ""}


def shown_decoded(
    data: bytes, decoded: Decoded, size: int = LIST_SIZE, *, is_pretty: bool = False
) -> Fields:
    """The fields of a key or value as decoded, and by what; or of its bytes, and why."""
    if decoded.fault:
        return shown(data, size) | {"fault": visible(decoded.fault[:LIST_SIZE])}
    try:
        text = json_bytes(decoded.found).decode("utf-8", "backslashreplace")
    except (ValueError, RecursionError) as error:
        return shown(data, size) | {"fault": str(error)[:LIST_SIZE]}
    pretty = _indented(_json(text)) if is_pretty else None
    fields = _fields(JSON, "", len(data)) | {"by": visible(decoded.name)}
    if pretty is not None:
        return {**fields, "text": _INVISIBLE.sub(_escape, pretty), "is_cut": False}
    return {**fields, "text": _INVISIBLE.sub(_escape, text[:size]), "is_cut": len(text) > size}


def _json(text: str) -> Any:
    """The parsed JSON; `None` if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _indented(found: Any) -> str | None:
    """Indented JSON; `None` if indentation would make it huge: a megabyte can become a gigabyte."""
    pieces, size = [], 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(found):
            pieces.append(piece)
            size += len(piece)
            if size > PRETTY_SIZE:
                return None
    except RecursionError:
        return None
    return "".join(pieces)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def visible(text: str) -> str:
    """A name chosen by others, with invisible characters escaped."""
    return _INVISIBLE.sub(_escape, text)


def counted(count: int, noun: str) -> str:
    """Examples: 1 record, 1,500 records."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def segment(text: str) -> str:
    """A name encoded as one segment of a path."""
    return quote(text, safe="")


def message_fields(
    entry: Entry, decoding: RecordDecoding, *, size: int = LIST_SIZE, is_pretty: bool = False
) -> Fields:
    """The fields of a message for a row or for its own page."""
    record = entry.record

    def part(side: str, data: bytes | None) -> Fields:
        decoded = decoding.decoded(side, record)
        if data is not None and decoded is not None:
            return shown_decoded(data, decoded, size, is_pretty=is_pretty)
        return shown(data, size, is_pretty=is_pretty, choice=decoding.choice(side))

    has_time = record.timestamp_type is not None
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms if has_time else None,
        "timestamp_type": record.timestamp_type.name.lower() if record.timestamp_type else None,
        "leader_epoch": record.leader_epoch,
        "key": part("key", record.key),
        "value": part("value", record.value),
        "headers": [
            {"name": visible(name), "value": shown(value, size)} for name, value in record.headers
        ],
    }
