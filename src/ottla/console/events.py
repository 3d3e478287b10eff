"""Server-sent events: what a stream brings step by step, and how an event is written.

See https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from dataclasses import dataclass
from typing import Protocol

from ottla.console.pages import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """An event whose data is a template rendered with some fields, or the fields as JSON."""

    event: str
    data: Fields
    template: str = ""


class EventStream(Protocol):
    """Steps are called one after the other, each in some thread."""

    def step(self) -> list[Fragment] | None:
        """What has come since the step before, after a moment's wait if need be; `None`: the end.

        Raises `OttlaError`, `OSError`.
        """

    def close(self) -> None:
        """Called once, also in the middle."""


def event_bytes(event: str, data: str) -> bytes:
    """Each line of the data is a field of its own: nothing in it can end the event."""
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: {event}\n{lines}\n".encode("utf-8", "backslashreplace")
