"""What is asked of the active controller: decisions in parts, and answers once they are committed.

Kafka's counterparts: `QuorumController.ControllerWriteEvent`, `DeferredEventQueue`.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.base.errors import ApiError
from ottla.base.turns import InParts

T = TypeVar("T")

logger = logging.getLogger(__name__)


class _Going(NamedTuple):
    """A decision that has more parts; `go_on` makes one, and returns whether it was the last."""

    go_on: Callable[[], bool]
    give_up: Callable[[], None]


class _Awaited(NamedTuple):
    """A result that is told when the record at `offset` is committed."""

    offset: int
    tell: Callable[[], None]
    give_up: Callable[[], None]


class Decisions:
    """In the quorum's thread, while the node leads."""

    def __init__(self) -> None:
        self._going: deque[_Going] = deque()
        self._awaited: deque[_Awaited] = deque()

    @property
    def has_more(self) -> bool:
        """Whether a decision is to go on."""
        return bool(self._going)

    def begin(self, go_on: Callable[[], bool], give_up: Callable[[], None]) -> None:
        """Makes the first part at once: most decisions have no other. What is longer goes on in
        turn, one after another; `give_up` is called if the leadership is lost before its last part.
        """
        if not go_on():
            self._going.append(_Going(go_on, give_up))

    def go_on(self) -> None:
        """Makes the next part of the decision that was begun first."""
        if self._going:
            first = self._going.popleft()
            if not first.go_on():
                self._going.appendleft(first)

    def await_commit(
        self, offset: int, tell: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        """Of two calls, who is told first has the lower offset, or the same."""
        self._awaited.append(_Awaited(offset, tell, give_up))

    def tell_committed(self, end_offset: int) -> None:
        """All before `end_offset` is committed, and in the image of this node."""
        while self._awaited and self._awaited[0].offset < end_offset:
            guarded(self._awaited.popleft().tell)

    def give_up(self, end_offset: int) -> None:
        """The leadership is lost: what is not committed yet may never be."""
        while self._going:
            guarded(self._going.popleft().give_up)
        while self._awaited:
            one = self._awaited.popleft()
            guarded(one.tell if one.offset < end_offset else one.give_up)


def next_part(parts: InParts[T], results: list[T]) -> ApiError | None:
    """Makes a part; `results` gets the result after the last. Returns why it was refused."""
    try:
        next(parts)
    except StopIteration as end:
        results.append(end.value)
    except ApiError as error:
        return error
    return None


def guarded(call: Callable[..., None], *args: Any) -> None:
    """An error of whoever is told something is no error of the quorum's."""
    try:
        call(*args)
    except Exception:
        logger.exception("what the quorum tells was not taken")
