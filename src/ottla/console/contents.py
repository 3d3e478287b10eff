"""Keys, values and headers as shown on a page: JSON, text, or hexadecimal."""

import json
import re
from typing import Any
from urllib.parse import quote

from ottla.base.patterns import lazy_pattern
from ottla.console.pages import Fields
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


def shown(data: bytes | None, size: int = LIST_SIZE, *, is_pretty: bool = False) -> Fields:
    """The fields of a key or value: `kind` is null, json, text or hex; `is_cut` if truncated."""
    if data is None:
        return {"kind": "null", "text": "null", "size": 0, "is_cut": False}
    fields: Fields = {"kind": "text", "size": len(data), "is_cut": len(data) > size}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {**fields, "kind": "hex", "text": data[: size // 2].hex(" "),
                "is_cut": len(data) > size // 2}  # fmt: skip
    if len(data) <= WHOLE_SIZE and text[:1] in "{[" and text:
        found = _json(text)
        if found is not None:
            fields["kind"] = "json"
            pretty = _indented(found) if is_pretty else None
            if pretty is not None:
                # Indentation may make the text longer than `size`.
                return {**fields, "text": _INVISIBLE.sub(_escape, pretty)}
    return {**fields, "text": _INVISIBLE.sub(_escape, text[:size])}


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


def message_fields(entry: Entry, *, size: int = LIST_SIZE, is_pretty: bool = False) -> Fields:
    """The fields of a message for a row or for its own page."""
    record = entry.record
    has_time = record.timestamp_type is not None
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms if has_time else None,
        "timestamp_type": record.timestamp_type.name.lower() if record.timestamp_type else None,
        "leader_epoch": record.leader_epoch,
        "key": shown(record.key, size, is_pretty=is_pretty),
        "value": shown(record.value, size, is_pretty=is_pretty),
        "headers": [
            {"name": visible(name), "value": shown(value, size)} for name, value in record.headers
        ],
    }
