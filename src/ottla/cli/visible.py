"""A terminal obeys control characters, also those in the names and data of others: it gets them
escaped, as `\\x1b` or `\\u202e`, whatever a command prints. Pipes and files get what there is.

    show_controls("stdout")            # from now on, if it is a terminal
    click.echo(own("\\x1b[1m") + name)  # the only way to have one obeyed
"""

import codecs
import io
import os
import re
import sys
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import click

from ottla.base.patterns import lazy_pattern

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MARK = f"own-{os.urandom(12).hex()}:"
"""Precedes each control character of ours. Nobody else knows it."""

_ERRORS = "ottla-visible"

# All but newline and tab; of Unicode also what reorders or breaks lines; bytes that are no text.
_CONTROLS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb"
    r"\ud800-\udfff"
)
_OBEYED = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f]")
_BREAKING = lazy_pattern(f"[\t\n{_CONTROLS}]")
_CONTROL_OR_OWN = lazy_pattern(f"{_MARK}(.)|[{_CONTROLS}]", re.DOTALL)

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

Text = TypeVar("Text", str, bytes)


def escaped(text: str) -> str:
    """The text as a terminal gets it: newlines and tabs stay, and what is marked as ours."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_OR_OWN.sub(lambda found: found[1] or _escape(found[0]), text)


def visible(text: str) -> str:
    """The text with all control characters escaped, newline and tab too: a name, or a cell."""
    return _BREAKING.sub(lambda found: _escape(found[0]), text)


def own(text: Text) -> Text:
    """Control characters of ours, or of the user's template, that standard output obeys."""
    return _marked(text) if isinstance(sys.stdout, VisibleText) else text


def own_error(text: str) -> str:
    """The same for standard error."""
    return _marked(text) if isinstance(sys.stderr, VisibleText) else text


def styled(text: str, **style: object) -> str:
    """The text in a style of `click.style`, if standard output is a terminal with colours."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    before, after = click.style("\0", **style).split("\0")  # type: ignore[arg-type]
    return own(before) + text + own(after)


def show_controls(name: str) -> None:
    """Replaces `sys.stdout` or `sys.stderr`, if it is a terminal, by a stream that escapes."""
    stream = getattr(sys, name)
    if isinstance(stream, io.TextIOWrapper) and stream.isatty():
        setattr(sys, name, VisibleText(stream))


class VisibleText(io.TextIOWrapper):
    """A terminal that shows control characters, those of `write` and of `buffer.write`."""

    def __init__(self, screen: io.TextIOWrapper) -> None:
        codecs.register_error(_ERRORS, _as_bytes)
        super().__init__(
            cast(BinaryIO, _VisibleBytes(cast(BinaryIO, screen.buffer), screen.encoding)),
            encoding=screen.encoding,
            errors=_ERRORS,
            line_buffering=True,
            write_through=screen.write_through,
        )
        self.obeyed = screen
        """The terminal itself, for a writer that escapes on its own."""


class _VisibleBytes(io.BufferedIOBase):
    """Takes bytes in the terminal's encoding; a character may come in two pieces."""

    def __init__(self, screen: BinaryIO, encoding: str) -> None:
        self._screen = screen
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")

    def write(self, data: "ReadableBuffer") -> int:
        taken = bytes(data)
        self._pass_on(self._decoder.decode(taken))
        return len(taken)

    def flush(self) -> None:
        if not self.closed:
            self._pass_on(self._decoder.decode(b"", final=True))
            self._screen.flush()

    def _pass_on(self, text: str) -> None:
        if text:
            self._screen.write(escaped(text).encode(self._encoding, "backslashreplace"))

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._screen.fileno()


def _as_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Bytes that are no text become bytes again; what the encoding lacks is escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return bytes([code - 0xDC00]), error.start + 1
    return character.encode("ascii", "backslashreplace").decode(), error.start + 1


def _marked(text: Text) -> Text:
    if isinstance(text, bytes):
        return _marked(text.decode("latin-1")).encode("latin-1")
    return _OBEYED.sub(lambda found: _MARK + found[0], text)


def _escape(character: str) -> str:
    """`\\x1b` for a byte, `\\u202e` for a character beyond ASCII."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    elif code > 0x7F:
        return f"\\u{code:04x}"
    return _SHORT.get(character) or f"\\x{code:02x}"
