"""Templates and their filters: numbers, times and bytes as people read them.

Everything is escaped when rendered: no template marks anything as safe. A time is an element in
UTC, which a script shows in the browser's zone with UTC beside it.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from ottla.base.patterns import lazy_pattern
from ottla.base.texts import duration_text, size_text, value_text
from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS, second_text, time_text
from ottla.console.contents import counted, segment
from ottla.console.events import Fragment, event_bytes
from ottla.console.pages import Page
from ottla.console.state import ConsoleState, root_of
from ottla.console.targets import Place

OWN_PATH = lazy_pattern(r'(\s(?:href|action|data-[a-z]+)=")/(?!static/|token")')
"""An attribute of a template that begins with a path of the cluster's pages."""

TEMPLATES = Path(__file__).parent / "templates"
NAVIGATION = (
    ("overview", "/", "Overview"),
    ("cluster", "/cluster", "Cluster"),
    ("topics", "/topics", "Topics"),
    ("groups", "/groups", "Groups"),
    ("queues", "/queues", "Queues"),
    ("transactions", "/transactions", "Transactions"),
    ("access", "/users", "Access"),
    ("schemas", "/schemas", "Schemas"),
    ("jobs", "/jobs", "Jobs"),
    ("tables", "/tables", "Tables"),
    ("tiers", "/tiers", "Tiers"),
    ("settings", "/settings", "Settings"),
)


class Renderer:
    """Renders templates, which are compiled at their first use."""

    def __init__(self, state: ConsoleState) -> None:
        self._state = state
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            extensions=[_UnderRoot],
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            size=size_text,
            duration=duration_text,
            second=_second,
            time=_time,
            age=_age,
            number=_number,
            setting=_setting,
            segment=segment,
            counted=counted,
        )
        self._environment.globals.update(
            navigation=NAVIGATION,
            version=state.version,
            is_read_only=state.is_read_only,
            has_sign_in=state.target.has_sign_in,
            root=state.root,
            cluster=state.name,
            clusters=[(name, root_of(name)) for name in state.clusters],
        )

    def page(
        self,
        page: Page,
        *,
        place: Place | None,
        path: str,
        query: Sequence[tuple[str, str]],
        form_token: str,
        look: str = "",
    ) -> str:
        """Renders a complete HTML document."""
        fields = dict(query)

        def link(**changes: object) -> str:
            """This page with other fields in its query."""
            wanted: dict[str, object] = {**fields, **changes}
            wanted.pop("done", None)
            kept = {name: str(one) for name, one in wanted.items() if one not in (None, "")}
            return path + (f"?{urlencode(kept)}" if kept else "")

        frame = {
            "page": page,
            "target": self._state.target.text if place is not None else "",
            "user": place.user if place is not None else "",
            "broker_refusal": place.broker_refusal if place is not None else "",
            "done": fields.get("done", ""),
            "form_token": form_token,
            "look": look,
            "link": link,
            "here": link(),
        }
        return self._environment.get_template(page.template).render({**page.data, **frame})

    def fragment(self, one: Fragment) -> bytes:
        """Encodes an event: rendered HTML, or JSON for a script."""
        if not one.template:
            return event_bytes(one.event, json.dumps(one.data))
        html = self._environment.get_template(one.template).render(one.data)
        return event_bytes(one.event, html)

    def event(self, event: str, text: str) -> bytes:
        return event_bytes(event, json.dumps(text))


class _UnderRoot(Extension):
    """Templates name paths as if there were one cluster; those of one of several are under its
    root. It is done to the template, so that no content of a page can look like such a path.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return OWN_PATH.sub(r"\1{{ root }}/", source)


def _second(timestamp_ms: int | None) -> str:
    """A time with seconds; nothing is known of negative ones."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "–"
    return _moment(timestamp_ms, second_text(timestamp_ms))


def _time(timestamp_ms: int | None) -> str:
    """A time with milliseconds, of a record: any number."""
    return "–" if timestamp_ms is None else _moment(timestamp_ms, time_text(timestamp_ms))


def _moment(timestamp_ms: int, text: str) -> str:
    if not FIRST_TIME_MS <= timestamp_ms <= LAST_TIME_MS:
        return text
    machine = time_text(timestamp_ms).replace(" ", "T") + "Z"
    return Markup('<time datetime="{}">{} UTC</time>').format(machine, text)


def _age(timestamp_ms: int | None) -> str:
    """How long ago a time was, or how far ahead it is."""
    if timestamp_ms is None:
        return ""
    age_ms = round(time.time() * 1000) - timestamp_ms
    return f"{duration_text(age_ms)} ago" if age_ms >= 0 else f"in {duration_text(-age_ms)}"


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:,}"


def _setting(value: str | None, name: str) -> str:
    return value_text(name, value)
