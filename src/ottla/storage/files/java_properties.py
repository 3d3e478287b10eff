"""Reads and writes the format of `java.util.Properties`, as far as `meta.properties` needs it.

Lines of `key=value`; `#` and `!` begin comments; backslashes escape and continue lines.
"""

import re

from ottla.base.patterns import lazy_pattern

_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {value: f"\\{key}" for key, value in _ESCAPED.items()}
_ESCAPES |= {character: f"\\{character}" for character in "\\=:#!"}

_LOGICAL_LINE = lazy_pattern(
    r"[ \t\f]*([#!][^\r\n]*|(?:\\(?:\r\n|.|\Z)|[^\\\r\n])*)(?:\r\n|\r|\n|\Z)", re.S
)
_CONTINUATION = lazy_pattern(r"\\(?:\r\n|\r|\n)[ \t\f]*|(\\[^\r\n])", re.S)
_KEY_AND_VALUE = lazy_pattern(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.S)
_ESCAPE = lazy_pattern(r"\\(u[0-9a-fA-F]{4}|[^u]|u|\Z)", re.S)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; the last of equal keys counts. Raises `ValueError` for a bad `\\uXXXX`."""
    fields = {}
    for match in _LOGICAL_LINE.finditer(text):
        line = match[1]
        if line and line[0] not in "#!":
            joined = _CONTINUATION.sub(lambda found: found[1] or "", line)
            pair = _KEY_AND_VALUE.fullmatch(joined)
            assert pair is not None
            fields[_unescape(pair[1])] = _unescape(pair[2])
    return fields


def properties_line(key: str, value: str) -> str:
    """Formats a line like `Properties.store`, without the newline."""
    escaped = _escape(value)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    return _escape(key).replace(" ", "\\ ") + "=" + escaped


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code == "u":
        raise ValueError("there is a \\u without four hexadecimal digits")
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)


def _escape(text: str) -> str:
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    assert code < 1 << 16, "a cluster id is plain text"
    return character if 0x20 <= code <= 0x7E else f"\\u{code:04X}"
