"""Answers that threads of this process wait for, though another takes them from the broker.

A broker hands all answers that are ready to its one caller. While the log listens that is the
server's loop, and otherwise the thread that calls the log.
"""

from threading import Event
from typing import Any

from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.waiting import Waiting


class PendingAnswers:
    """One event for each pending id; all but waiting happens under the broker's lock."""

    def __init__(self) -> None:
        self._events: dict[object, Event] = {}

    def enter(self, pending_id: Waiting[Any]) -> None:
        """Called together with the request, so that no answer is missed."""
        self._events[pending_id] = Event()

    def event_of(self, pending_id: Waiting[Any]) -> Event | None:
        """Set when the answer is there; `None` when it was there before."""
        return self._events.get(pending_id)

    def leave(self, pending_id: Waiting[Any]) -> None:
        self._events.pop(pending_id, None)

    def end(self, pending_id: object) -> None:
        """Has the thread that waits for an answer continue."""
        event = self._events.pop(pending_id, None)
        if event is not None:
            event.set()

    def end_answered(self, broker: Broker, at: Timestamps) -> None:
        """The same for all answers that the broker has now."""
        for pending_id in broker.take_answered(at.monotonic_ms):
            self.end(pending_id)

    def end_all(self) -> None:
        """Nothing is answered any more."""
        for pending_id in list(self._events):
            self.end(pending_id)
