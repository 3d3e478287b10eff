"""Regular expressions for searches in records, in RE2's syntax and in linear time.

Python's own engine backtracks, and may take hours for one record, in which neither a page's Stop
button nor a search's time limit works. RE2 has no back-references and no look-around.
"""

from collections.abc import Callable
from typing import Protocol

from ottla.base.errors import UserError


class Match(Protocol):
    def __getitem__(self, group: int, /) -> bytes: ...


class Pattern(Protocol):
    def search(self, data: bytes, /) -> Match | None: ...

    def sub(self, replace: Callable[[Match], bytes], data: bytes, /) -> bytes: ...


def compiled(text: str, *, is_by_line: bool = False) -> Pattern:
    """Raises `UserError`. With `is_by_line` `^` and `$` are the ends of each line."""
    import re2  # start-up counts

    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # a byte is a character: values may be binary
    data = text.encode("utf-8", "surrogateescape")
    try:
        pattern: Pattern = re2.compile(b"(?m)" + data if is_by_line else data, options)
    except re2.error as error:
        (reason,) = error.args
        raise UserError(
            f"{text} is not a regular expression of RE2: {reason.decode(errors='replace')}"
        ) from error
    return pattern
