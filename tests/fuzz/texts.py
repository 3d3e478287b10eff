"""Texts that people and programs write to commands and pages: any of them, and numbers without end.

A number is where Python ends with an error of its own: `&` in an input stands for 5,000 digits.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

from ottla.base.errors import UserError
from ottla.cli.visible import escaped, visible
from ottla.console.searching import parse_cursor, parse_partitions
from ottla.diagnosis.offset_reset import parse_place
from ottla.search.filters import parse_filter
from ottla.search.positions import parse_position, parse_time

NOW_MS = 1_769_860_800_000
ENDLESS = "9" * 5000
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


def queries(data: bytes) -> None:
    """Each parser of links and options takes a text, or says what is wrong with it."""
    text = data.decode("utf-8", "surrogateescape").replace("&", ENDLESS)
    for parse in (
        lambda: parse_cursor(text),
        lambda: parse_partitions(text),
        lambda: parse_position("--from", text, NOW_MS),
        lambda: parse_time(text, NOW_MS),
        lambda: parse_place("--to", text, NOW_MS),
        lambda: parse_filter(text, NOW_MS),
    ):
        with suppress(UserError):
            parse()


def terminal(data: bytes) -> None:
    """Nothing that a terminal obeys is left of a text."""
    text = data.decode("utf-8", "surrogateescape")
    for shown in (escaped(text), visible(text)):
        found = OBEYED.search(shown)
        assert found is None, found


def query_seeds() -> Iterator[bytes]:
    for text in ("0,2", "0:12,2:5", "-100", "@2026-01-31T12:00", "&h", "-&d", "@&", "current"):
        yield text.encode()
    yield b'.a[&] > & and key = "x" or not (headers.a ~ "b.*")'
