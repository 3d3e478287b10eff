"""Server-sent events: the streams that produce them, and their encoding.

See https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import contextlib
import os
import sys
import threading
from typing import Protocol

from ottla.base.values import dataclass
from ottla.console.pages import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """An event whose data is a rendered template, or the fields as JSON."""

    event: str
    data: Fields
    template: str = ""


NICENESS = 10


def give_precedence() -> None:
    """Lowers the priority of the current thread, above all relative to a broker.

    Only on Linux, where threads have priorities. It is not restored, so the thread must only run
    steps of streams.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class EventStream(Protocol):
    """A stream of events. Steps are called one at a time, by any thread."""

    def step(self) -> list[Fragment] | None:
        """Returns new events, perhaps after a short wait; `None` at the end.

        Raises `OttlaError`, `OSError`.
        """

    def close(self) -> None:
        """Ends the stream; called once, at any time between steps."""


class SerialStream:
    """A stream whose `close` waits for the current step, even if its request was cancelled."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_closed = False

    def step(self) -> list[Fragment] | None:
        with self._lock:
            return None if self._is_closed else self._stream.step()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._stream.close()


class OpenStreams:
    """The open streams, limited per visitor and in total.

    If a visitor opens too many, the oldest is ended, because the newest page is being viewed. If
    the console's total is reached, the new stream is rejected. Used by the event loop only.
    """

    def __init__(self, *, most_of_visitor: int, most: int) -> None:
        self.most_of_visitor = most_of_visitor
        self._most = most
        self._open: dict[str, dict[object, None]] = {}

    def begin(self, visitor: str) -> object | None:
        """Registers a stream and returns its name; `None` if the total is reached."""
        streams = self._open.get(visitor, ())
        if len(streams) == self.most_of_visitor:
            self.end(visitor, next(iter(streams)))
        if sum(map(len, self._open.values())) == self._most:
            return None
        name = object()
        self._open.setdefault(visitor, {})[name] = None
        return name

    def has(self, visitor: str, name: object) -> bool:
        """Whether the stream may continue."""
        return name in self._open.get(visitor, ())

    def end(self, visitor: str, name: object) -> None:
        """Removes a stream, if it is still registered."""
        streams = self._open.get(visitor)
        if streams is None or name not in streams:
            return
        del streams[name]
        if not streams:
            del self._open[visitor]


def event_bytes(event: str, data: str) -> bytes:
    """Encodes an event; each line of the data is a separate field, so that data cannot end the
    event.
    """
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: {event}\n{lines}\n".encode("utf-8", "backslashreplace")
