"""A page as a value: its data, which is also its JSON, and its template."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ottla.base.errors import UnreachableError, UserError
from ottla.base.texts import whole_number
from ottla.base.values import dataclass
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.console.state import ConsoleState
from ottla.console.targets import Place

Fields = dict[str, Any]

MOST = (1 << 63) - 1
"""The largest offset or time in milliseconds."""


class QueryError(UserError):
    """A parameter of the address that a page does not take; `allowed` says which values it takes.

    The page of the error has the parameters in a form, as they were written.
    """

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={value}: {name} is {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`data` consists of texts, numbers, lists and dicts only; `--json` shows it unchanged."""

    template: str
    title: str
    data: Fields
    section: str = ""
    """The page's entry in the navigation."""
    status: int = 200
    topic: str | None = None
    refresh_s: int | None = None
    """The interval after which a browser without scripts reloads the page."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """After a change, redirects to the page that shows it, with a message."""

    path: str
    done: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The input of a view. `form` is set for POST only, after all checks."""

    place: Place
    state: ConsoleState
    now_ms: int
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    visitor: str = "token"
    """The browser's id; `token` for a program that has the console's token."""
    address: str = ""
    """The visitor's IP address."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of the form, or else of the query."""
        return self.query if self.form is None else self.form

    def number(self, name: str, default: int, *, least: int = 0, most: int = MOST) -> int:
        """A number of the fields; the default without one. Raises `QueryError` for another text."""
        text = self.fields.get(name, "").strip()
        if not text:
            return default
        number = whole_number(text, most)
        if number is None or number < least:
            bounds = f"from {least:,}" + (f" to {most:,}" if most < MOST else "")
            only = f"{least:,}, because there is no other" if least == most else bounds
            raise QueryError(name, text, f"a whole number {only}")
        return number

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of the choices, the first without a text. Raises `QueryError` for another text."""
        text = self.fields.get(name, "").strip() or choices[0]
        if text not in choices:
            raise QueryError(name, text, f"one of {', '.join(filter(None, choices))}")
        return text

    def flag(self, name: str) -> bool:
        """Whether a parameter is 1. Raises `QueryError` for anything but 1 and 0."""
        text = self.fields.get(name, "").strip() or "0"
        if text not in ("0", "1"):
            raise QueryError(name, text, "1 or 0")
        return text == "1"


def left_out(lost: list[str], what: str) -> Callable[[UnreachableError], None]:
    """For a page that asks all brokers: `lost` gets a line for each that does not answer, with
    what of it is not shown.
    """

    def note(error: UnreachableError) -> None:
        # The visitor did not choose the address, so its hint does not help.
        line = f"a broker does not answer, and {what}: {str(error).removesuffix(ADDRESS_HINT)}"
        if line not in lost:
            lost.append(line)

    return note


def to_json(data: Fields) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
