"""Responses that threads of this process wait for, though another thread takes them from the
broker.

A broker returns all ready responses to its one caller: while the log listens that is the server's
loop, otherwise the thread that calls the log.
"""

from threading import Event
from typing import Any

from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.waiting.rooms import Waiting


class PendingAnswers:
    """One event for each pending id; everything but waiting happens under the broker's lock."""

    def __init__(self) -> None:
        self._events: dict[object, Event] = {}

    def enter(self, pending_id: Waiting[Any]) -> None:
        """Must be called together with the request, so that no response is missed."""
        self._events[pending_id] = Event()

    def event_of(self, pending_id: Waiting[Any]) -> Event | None:
        """Set when the response is there; `None` if it already was."""
        return self._events.get(pending_id)

    def leave(self, pending_id: Waiting[Any]) -> None:
        self._events.pop(pending_id, None)

    def end(self, pending_id: object) -> None:
        """Makes the thread that waits for a response continue."""
        event = self._events.pop(pending_id, None)
        if event is not None:
            event.set()

    def end_answered(self, broker: Broker, at: Timestamps) -> None:
        """The same for all responses that the broker has now."""
        for pending_id in broker.answers.take_answered(at.monotonic_ms):
            self.end(pending_id)

    def end_all(self) -> None:
        """Makes all threads continue: nothing is answered any more."""
        for pending_id in list(self._events):
            self.end(pending_id)
