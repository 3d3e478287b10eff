r"""The templates of `--format`. A template is a name (`value`, `line`, `json`), kcat's letters, or
Python's fields:

    %t topic  %p partition  %o offset  %T timestamp in ms  %k key  %s or %v value  %h headers
    %K %S %V  sizes of key and value, -1 for null     %R size of the value in 4 bytes     %% percent
    {topic} {partition} {offset:>8} {timestamp:%H:%M} {key} {value.customer.id} {header.trace}

With letters nothing is added: end the format with \n. With fields each record is a line. In a
format with letters, braces are text. In both \n, \r, \t, \\ and \xHH mean the same as in Python.
"""

import re
import string
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.base.errors import RefusalError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.cli.records.json_lines import record_object
from ottla.cli.visible import own
from ottla.search.encodings import TEXT, Encoding, field_reader, json_bytes
from ottla.search.fields import Entry, Field, parse_field

Piece = Callable[[Entry], bytes]

NAMED = ("value", "line", "json")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZE = struct.Struct(">i")
_LETTER = lazy_pattern(rb"%(.)", re.DOTALL)
_BRACED = lazy_pattern(rb"\{[A-Za-z_.][^{}]*\}")
_ESCAPE = lazy_pattern(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"0": b"\0", b"e": b"\x1b"}
_NO_LINE = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""Characters that would break a line or its columns."""


class UnreadableError(RefusalError):
    """A record's key or value is not in the requested encoding."""

    def __init__(self, entry: Entry, side: str, encoding: Encoding, reason: object) -> None:
        place = f"{entry.topic}-{entry.partition} at offset {entry.record.offset}"
        super().__init__(
            f"{place}: its {side} is not {encoding.name}: {reason}; "
            f"print it with --{side} text, or --{side} hex"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How keys, values and nulls are printed; `separator` is between key and value."""

    key: Encoding = TEXT
    value: Encoding = TEXT
    null: bytes = b""
    separator: bytes | None = None


def parse_template(text: str, style: Style) -> Piece:
    """Returns the function that prints a record; raises `UserError`.

    The function raises `UnreadableError`.
    """
    pieces = _Pieces(style)
    match text:
        case "value":
            return pieces.values()
        case "line":
            return pieces.line
        case "json":
            return pieces.json_line
    raw = text.encode("utf-8", "surrogateescape")
    if _LETTER.search(_BRACED.sub(b"", raw)):
        return _joined(pieces.letters(raw))
    if "{" in text:
        return _joined([*pieces.fields(text), _constant(b"\n")])
    raise UserError(
        f"--format {text!r} has no field of a record; use {', '.join(NAMED)}, "
        f"kcat's letters such as '%k: %s\\n', or fields such as '{{key}}: {{value}}'"
    )


def _joined(pieces: list[Piece]) -> Piece:
    return lambda entry: b"".join([piece(entry) for piece in pieces])


def _constant(data: bytes) -> Piece:
    """What the user gave: a terminal obeys it."""
    shown = own(data)
    return lambda _: shown


def unescaped(data: bytes) -> bytes:
    r"""Replaces `\n`, `\t`, `\x1b` and the like by the bytes that they stand for."""

    def byte(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes.fromhex(found[1].decode())
        return _ESCAPES.get(found[2], found[0])

    return _ESCAPE.sub(byte, data)


class _Pieces:
    """Creates the parts of a template."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._reader = field_reader(style.key, style.value)

    def key(self, entry: Entry) -> bytes:
        return self._shown(entry, "key", entry.record.key, self._style.key)

    def value(self, entry: Entry) -> bytes:
        return self._shown(entry, "value", entry.record.value, self._style.value)

    def _shown(self, entry: Entry, side: str, data: bytes | None, encoding: Encoding) -> bytes:
        if data is None:
            return self._style.null
        try:
            return encoding.show(encoding.framed(data, entry.record))
        except ValueError as error:
            raise UnreadableError(entry, side, encoding, error) from error

    def values(self) -> Piece:
        """Prints values, or keys and values, each followed by a newline."""
        if self._style.separator is None:
            return lambda entry: self.value(entry) + b"\n"
        between = own(self._style.separator)
        return lambda entry: self.key(entry) + between + self.value(entry) + b"\n"

    def line(self, entry: Entry) -> bytes:
        """Prints place, time, key, value and headers for people, with non-text bytes escaped."""
        record = entry.record
        when = "-"
        if record.timestamp_type is not None:
            when = _time_text(record.timestamp_ms)
        parts = [f"{entry.topic}-{entry.partition}", str(record.offset), when]
        parts.append("null" if record.key is None else _escaped(self.key(entry)))
        parts.append("null" if record.value is None else _escaped(self.value(entry)))
        for name, data in record.headers:
            parts.append(f"{name}={'null' if data is None else _escaped(data)}")
        return "\t".join(parts).encode() + b"\n"

    def json_line(self, entry: Entry) -> bytes:
        return json_bytes(record_object(entry, self._style.key, self._style.value)) + b"\n"

    def letters(self, raw: bytes) -> list[Piece]:
        pieces: list[Piece] = []
        position = 0
        for found in _LETTER.finditer(raw):
            pieces.append(_constant(unescaped(raw[position : found.start()])))
            pieces.append(self._letter(found[1]))
            position = found.end()
        pieces.append(_constant(unescaped(raw[position:])))
        return pieces

    def _letter(self, letter: bytes) -> Piece:
        match letter:
            case b"t":
                return lambda entry: entry.topic.encode()
            case b"p":
                return lambda entry: b"%d" % entry.partition
            case b"o":
                return lambda entry: b"%d" % entry.record.offset
            case b"T" | b"d":
                return lambda entry: b"%d" % entry.record.timestamp_ms
            case b"k":
                return self.key
            case b"s" | b"v":
                return self.value
            case b"K":
                return lambda entry: b"%d" % _size(entry.record.key)
            case b"S" | b"V":
                return lambda entry: b"%d" % _size(entry.record.value)
            case b"R":
                return lambda entry: _SIZE.pack(_size(entry.record.value))
            case b"h":
                return self._headers
            case b"%":
                return _constant(b"%")
        raise UserError(
            f"--format: unknown letter %{letter.decode(errors='replace')}; "
            f"there are %t %p %o %T %k %s %v %h %K %S %V %R %%"
        )

    def _headers(self, entry: Entry) -> bytes:
        return b",".join(
            name.encode() + b"=" + (b"NULL" if data is None else data)
            for name, data in entry.record.headers
        )

    def fields(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        try:
            for literal, name, form, conversion in string.Formatter().parse(text):
                pieces.append(_constant(unescaped(literal.encode("utf-8", "surrogateescape"))))
                if name is not None:
                    pieces.append(self._field(name, form or "", conversion))
        except ValueError as error:
            raise UserError(f"--format {text!r}: {error}") from error
        return pieces

    def _field(self, name: str, form: str, conversion: str | None) -> Piece:
        if conversion is not None:
            raise UserError(f"--format: {{{name}!{conversion}}}: use only {{{name}}}")
        if name == "timestamp_ms":
            return lambda entry: _formed(entry.record.timestamp_ms, form)
        field, end = parse_field(name)
        if end != len(name):
            raise UserError(f"--format: {{{name}}} is not a field; use one such as {{value.id}}")
        if form:
            _try_form(field, form)
        elif (plain := self._plain(field)) is not None:
            return plain
        return lambda entry: _formed(self._text(entry, field), form)

    def _plain(self, field: Field) -> Piece | None:
        """Returns whole keys and values, which are printed unchanged, text or not."""
        if field.steps:
            return None
        return {"key": self.key, "value": self.value, "headers": self._headers}.get(field.root)

    def _text(self, entry: Entry, field: Field) -> Any:
        if field.root == "timestamp":
            kind = entry.record.timestamp_type
            return "" if kind is None else _time(entry.record.timestamp_ms)
        plain = self._plain(field)
        found = self._reader.get(entry, field) if plain is None else plain(entry)
        match found:
            case None:
                return self._style.null.decode("utf-8", "surrogateescape")
            case bytes():
                return found.decode("utf-8", "surrogateescape")
            case dict() | list() | bool():
                return json_bytes(found).decode()
        return found


def _formed(value: Any, form: str) -> bytes:
    if isinstance(value, datetime) and not form:
        value = value.isoformat(timespec="milliseconds")
    try:
        text = format(value, form)
    except ValueError:
        # The form is for numbers, but the value is a text, such as for a missing JSON member.
        text = str(value)
    return text.encode("utf-8", "surrogateescape")


def _try_form(field: Field, form: str) -> None:
    if field.root in ("partition", "offset"):
        try:
            format(0, form)
        except ValueError as error:
            raise UserError(f"--format: {{{field.root}:{form}}}: {error}") from error


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _time(timestamp_ms: int) -> datetime | str:
    """Formats a time; a number too large for a date stays a number."""
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms}ms"


def _time_text(timestamp_ms: int) -> str:
    at = _time(timestamp_ms)
    return at if isinstance(at, str) else at.isoformat(timespec="milliseconds")


def _escaped(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace").translate(_NO_LINE)
