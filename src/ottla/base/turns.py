"""Long work in turns: a loop over many elements asks between two of them whether others wait.

The server runs a long request as a `Turn` (`server/turns.py`), which is suspended where `give_way`
finds that its time is over. Other requests are then served before it continues, so a request that
yields must leave everything in a state that others may see, and must not rely on what it saw
before. Without a server, and in short requests, nothing is suspended.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import merge
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from ottla.base.errors import ProtocolError

T = TypeVar("T")

PART_SIZE: Final = 256
"""What is done to so many elements takes no longer than a turn."""


class TurnsNeededError(Exception):
    """A request turns out to be long before it has changed anything: it is to begin again, as a
    `Turn`."""


class Pace(Protocol):
    """What a message is read or written under when it may be large."""

    def count(self, number: int) -> None:
        """Raises when a request has more elements than it may."""

    def elements(self, number: int) -> Iterable[int]:
        """Counts an array's elements, and goes through their numbers in turns."""


class Scout:
    """Reads on as long as a request is short; raises `TurnsNeededError` when it is not."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def begin(self) -> None:
        """Another request."""
        self._left = self._limit

    def count(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise TurnsNeededError

    def elements(self, number: int) -> Iterable[int]:
        self.count(number)
        return range(number)


class Turn:
    """A long request at work. `suspend` returns when it may continue, until `until_s`.

    `is_kept`: it has begun to change something, and continues when its client has gone.
    """

    __slots__ = (
        "_elements_left",
        "_max_elements",
        "_max_size",
        "_now_s",
        "_suspend",
        "come_back",
        "is_kept",
        "leave",
        "to_free",
        "until_s",
    )

    def __init__(
        self,
        suspend: Callable[[], None],
        now_s: Callable[[], float],
        *,
        max_elements: int,
        max_size: int,
    ) -> None:
        self._suspend = suspend
        self._now_s = now_s
        self._max_elements = max_elements
        self._elements_left = max_elements
        self._max_size = max_size
        self.until_s = 0.0
        self.is_kept = False
        self.leave: Callable[[], None] = _stay
        self.come_back: Callable[[], None] = _stay
        self.to_free: list[list[Any] | dict[Any, Any]] = []

    def aside(self, deed: Callable[[], T]) -> T:
        self.leave()
        try:
            return deed()
        finally:
            self.come_back()

    def free(self) -> None:
        """Empties what was passed to `freed_in_turns`."""
        while self.to_free:
            self.give_way()  # Many may be empty.
            self.empty(self.to_free.pop())

    def empty(self, items: list[Any] | dict[Any, Any]) -> None:
        while items:
            self.give_way()
            if isinstance(items, list):
                del items[-PART_SIZE:]
                continue
            for _ in range(min(PART_SIZE, len(items))):
                items.popitem()

    def end(self) -> None:
        """Drops the reference to its owner, so that the two need not wait for the collector."""
        self._suspend = self.leave = self.come_back = _stay

    def suspend(self) -> None:
        self._suspend()

    def give_way(self) -> None:
        if self._now_s() >= self.until_s:
            self._suspend()

    def count(self, number: int) -> None:
        """Raises `ProtocolError` when a request, or what it asks for, has too many elements."""
        self._elements_left -= number
        if self._elements_left < 0:
            raise ProtocolError(f"more than {self._max_elements} elements in one request")

    def elements(self, number: int) -> Iterator[int]:
        self.count(number)
        return self._each(range(number))

    def written(self, items: Iterable[T], data: Sized) -> Iterator[T]:
        """The elements of an answer that grows in `data`; raises `ProtocolError` for a huge one."""
        for one in self._each(items):
            if len(data) > self._max_size:
                raise ProtocolError(f"an answer of more than {self._max_size} bytes")
            yield one

    def _each(self, items: Iterable[T]) -> Iterator[T]:
        for one in items:
            if self._now_s() >= self.until_s:
                self._suspend()
            yield one


def _stay() -> None:
    """A turn for which no other request waits."""


CURRENT: Final[ContextVar[Turn | None]] = ContextVar("turn", default=None)
"""The turn that the running code belongs to. Each has a thread, so each has its own value."""


def give_way() -> None:
    """Lets others have their turn, when this one has lasted long enough."""
    turn = CURRENT.get()
    if turn is not None:
        turn.give_way()


def in_a_turn() -> bool:
    """Whether the running code can be suspended, so that others run."""
    return CURRENT.get() is not None


def let_others() -> bool:
    """Yields to others; returns whether there is any other."""
    turn = CURRENT.get()
    if turn is None:
        return False
    turn.suspend()
    return True


def in_turns(items: Iterable[T]) -> Iterable[T]:
    """The same items, with others having their turn between them."""
    turn = CURRENT.get()
    return items if turn is None else turn._each(items)


def many_in_turns(items: Sequence[T]) -> Iterable[T]:
    """As `in_turns`, for hot paths: of one item, or none, nobody asks for the turn."""
    return in_turns(items) if len(items) > 1 else items


def parts_in_turns(items: Iterable[T], size: int = PART_SIZE) -> Iterator[list[T]]:
    """The same items in lists, for what is done to each list as a whole."""
    turn = CURRENT.get()
    left = iter(items)
    while part := list(islice(left, size)):
        if turn is not None:
            turn.give_way()
        yield part


C = TypeVar("C", list[Any], dict[Any, Any])


def freed_in_turns(items: C) -> C:
    """The same list or dict, emptied in turns when the request is over: to free 100,000 objects at
    once takes 3 to 20 ms. Nobody else may need it then."""
    turn = CURRENT.get()
    if turn is not None:
        turn.to_free.append(items)
    return items


def sorted_in_turns(items: Iterable[T], key: Callable[[T], Any] | None = None) -> Iterable[T]:
    """The same items in order; they are gone through once."""
    if CURRENT.get() is None:
        return sorted(items, key=key)  # type: ignore[type-var, arg-type]
    parts = [sorted(part, key=key) for part in parts_in_turns(items)]  # type: ignore[type-var, arg-type]
    return in_turns(merge(*parts, key=key))  # type: ignore[arg-type]


def aside(deed: Callable[[], T]) -> T:
    """Does what needs nothing that others may change, while they have their turn: long calls that
    leave the interpreter, such as a sync or the unpacking of a batch."""
    turn = CURRENT.get()
    return deed() if turn is None else turn.aside(deed)


class OneAtATime:
    """What several requests do in turns, one after the other: `with` waits for the others' end.

    What is not suspended does not wait.
    """

    __slots__ = ("_is_held",)

    def __init__(self) -> None:
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held and let_others():
            pass
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


@contextmanager
def at_once() -> Iterator[None]:
    """What is done here is seen by others as a whole, however long it takes."""
    token = CURRENT.set(None)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextmanager
def kept() -> Iterator[None]:
    """What is begun here is finished, even if its result is no longer awaited."""
    turn = CURRENT.get()
    if turn is None or turn.is_kept:
        yield
        return
    turn.is_kept = True
    try:
        yield
    finally:
        turn.is_kept = False


def count_elements(number: int) -> None:
    """Counts what an answer will hold beyond one element for each of the request's."""
    turn = CURRENT.get()
    if turn is not None:
        turn.count(number)
