"""Requests under way: at most one to each node, and pauses after failures.

Kafka's counterpart: `RequestManager`.
"""

from typing import Final, NamedTuple

from ottla.quorum.messages import Request

LONGEST_PAUSE: Final = 5
"""Of a node that does not answer at all, in pauses after one failure: a minority asks for years."""


class UnderWay(NamedTuple):
    node_id: int
    request: Request
    until_ms: float


class Peers:
    """Numbers are never used twice, so a response to a request that was given up is recognized."""

    def __init__(self, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._by_number: dict[int, UnderWay] = {}
        self._numbers: dict[int, int] = {}
        """The number of the request that is under way to a node."""
        self._paused_until: dict[int, float] = {}
        self._silence: dict[int, int] = {}
        """How often in a row a node has not answered."""
        self._last_number = 0

    def is_ready(self, node_id: int, now_ms: float) -> bool:
        number = self._numbers.get(node_id)
        if number is not None:
            if now_ms < self._by_number[number].until_ms:
                return False
            self._forget(number)
        return now_ms >= self._paused_until.get(node_id, now_ms)

    def ready_ms(self, node_id: int) -> float | None:
        """When the node may be asked again; `None` if at once."""
        number = self._numbers.get(node_id)
        return (
            self._paused_until.get(node_id) if number is None else self._by_number[number].until_ms
        )

    def is_busy(self, node_id: int) -> bool:
        return node_id in self._numbers

    def sent(self, node_id: int, request: Request, now_ms: float) -> int:
        """The number of a request that is sent now."""
        self._last_number += 1
        until_ms = now_ms + self._timeout_ms
        self._by_number[self._last_number] = UnderWay(node_id, request, until_ms)
        self._numbers[node_id] = self._last_number
        self._paused_until.pop(node_id, None)
        return self._last_number

    def awaits(self, number: int) -> bool:
        """Whether somebody waits for the response with this number."""
        return number in self._by_number

    def answered(self, number: int) -> UnderWay | None:
        """The request that a response is for; `None` if nobody waits for it any more."""
        found = self._by_number.get(number)
        if found is not None:
            self._forget(number)
        return found

    def pause(self, node_id: int, now_ms: float, for_ms: float | None = None) -> None:
        """It has refused, and is asked again soon, or after a time."""
        self._silence.pop(node_id, None)
        self._paused_until[node_id] = now_ms + (self._backoff_ms if for_ms is None else for_ms)

    def is_silent(self, node_id: int, now_ms: float) -> None:
        """It has not answered; the pause grows with each time."""
        count = self._silence[node_id] = min(self._silence.get(node_id, 0) + 1, LONGEST_PAUSE)
        self._paused_until[node_id] = now_ms + self._backoff_ms * count

    def heard(self, node_id: int) -> None:
        """It is there, and may be asked at once."""
        if self._silence.pop(node_id, None) is not None:
            self._paused_until.pop(node_id, None)

    def forget_all(self) -> None:
        """In another state other requests are due."""
        self._by_number.clear()
        self._numbers.clear()
        self._paused_until.clear()

    def _forget(self, number: int) -> None:
        del self._numbers[self._by_number.pop(number).node_id]
