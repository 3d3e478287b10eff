"""A page as a value: its data, which is also its JSON, and its template."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ottla.base.values import dataclass
from ottla.console.state import ConsoleState
from ottla.console.targets import Place

Fields = dict[str, Any]


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

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """A number of the query; the default if it is invalid, since links are edited by hand."""
        try:
            return min(max(int(self.query.get(name, default)), least), most)
        except ValueError:
            return default


def to_json(data: Fields) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
