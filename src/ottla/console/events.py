"""Server-sent events: what a stream brings step by step, and how an event is written.

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
    """An event whose data is a template rendered with some fields, or the fields as JSON."""

    event: str
    data: Fields
    template: str = ""


NICENESS = 10


def give_precedence() -> None:
    """Has this thread run after others that want the processor: a broker's, above all.

    Only Linux gives single threads a priority. It is not taken back, so the thread does nothing
    else than the steps of streams.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


class EventStream(Protocol):
    """Steps are called one after the other, each in some thread."""

    def step(self) -> list[Fragment] | None:
        """Returns new events, waiting for a moment if need be; `None`: the end.

        Raises `OttlaError`, `OSError`.
        """

    def close(self) -> None:
        """Called once, also in the middle."""


class SerialStream:
    """A stream whose end waits for the step under way, also if its request is cancelled."""

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
    """The streams that browsers follow, bounded for each visitor and in total.

    A visitor who opens one too many loses the oldest, since the page in front is the one being
    looked at. If the console has no room, the new stream is refused. Used by the event loop alone.
    """

    def __init__(self, *, most_of_visitor: int, most: int) -> None:
        self.most_of_visitor = most_of_visitor
        self._most = most
        self._open: dict[str, dict[object, None]] = {}

    def begin(self, visitor: str) -> object | None:
        """A name for the stream; `None` where there is no room."""
        streams = self._open.get(visitor, ())
        if len(streams) == self.most_of_visitor:
            self.end(visitor, next(iter(streams)))
        if sum(map(len, self._open.values())) == self._most:
            return None
        name = object()
        self._open.setdefault(visitor, {})[name] = None
        return name

    def has(self, visitor: str, name: object) -> bool:
        """Whether a stream may continue."""
        return name in self._open.get(visitor, ())

    def end(self, visitor: str, name: object) -> None:
        """Does nothing for a stream that was ended before."""
        streams = self._open.get(visitor)
        if streams is None or name not in streams:
            return
        del streams[name]
        if not streams:
            del self._open[visitor]


def event_bytes(event: str, data: str) -> bytes:
    """Each line of the data is a field of its own: nothing in it can end the event."""
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: {event}\n{lines}\n".encode("utf-8", "backslashreplace")
