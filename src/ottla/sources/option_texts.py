"""Parses the values of options: numbers, booleans, addresses. Errors name the option."""

from collections.abc import Callable, Mapping
from typing import Any

from ottla.base.addresses import Address
from ottla.base.errors import UserError

_TRUTHS = {"true": True, "false": False}

Fields = Mapping[str, tuple[str, Callable[[str, str], Any]]]
"""Option name -> the field that stores it, and its parser."""


def read_fields(options: Mapping[str, str], fields: Fields, prefix: str = "") -> dict[str, Any]:
    """The fields of the given options; errors put `prefix` before the names."""
    return {
        field: read(prefix + name, options[name])
        for name, (field, read) in fields.items()
        if name in options
    }


def parse_plain(_: str, text: str) -> str:
    return text


def parse_count(option: str, text: str) -> int:
    """Parses a number above 0; raises `UserError`."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise UserError(f"option {option} takes a number above 0, not {text!r}")
    return int(text)


def parse_seconds(option: str, text: str) -> float:
    """Parses a number of milliseconds as seconds; raises `UserError`."""
    return parse_count(option, text) / 1000


def parse_truth(option: str, text: str) -> bool:
    """Parses true or false; raises `UserError`."""
    if text.lower() not in _TRUTHS:
        raise UserError(f"option {option} takes true or false, not {text!r}")
    return _TRUTHS[text.lower()]


def parse_addresses(option: str, text: str) -> tuple[Address, ...]:
    """Parses HOST:PORT, several separated by commas; raises `UserError`."""
    found = []
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise UserError(f"option {option} takes HOST:PORT, not {one.strip()!r}")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)
