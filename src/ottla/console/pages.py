"""A page as a value: what it shows, which is its JSON too, and the template that shows it."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ottla.base.values import dataclass
from ottla.console.places import Place
from ottla.console.state import ConsoleState

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`data` holds texts, numbers, lists and dicts only, and `--json` shows it as it is."""

    template: str
    title: str
    data: Fields
    section: str = ""
    """The entry of the navigation that the page belongs to."""
    status: int = 200
    topic: str | None = None
    refresh_s: int | None = None
    """After which a browser without scripts asks again."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """After a change: redirects to the page that shows it, with a line about what was done."""

    path: str
    done: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The input of a view. `form` is there for a POST only, after all checks."""

    place: Place
    state: ConsoleState
    now_ms: int
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """A number of the query; nonsense is the default, since links are edited by hand."""
        try:
            return min(max(int(self.query.get(name, default)), least), most)
        except ValueError:
            return default


def to_json(data: Fields) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
