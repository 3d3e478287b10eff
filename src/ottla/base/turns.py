"""Runs long requests in turns: a loop over many elements yields to other requests.

The server runs a long request as a `Turn` (`server/dispatching/turns.py`), which is suspended when
its time is over. Other requests are then served before it continues, so a request that yields must
leave a consistent state, and must not rely on what it read before. Without a server, and in short
requests, nothing is suspended.

Code does not name this where it goes through what a long request has: the arrays of the request are
`TurnList`s, which yield between their elements, and so are lists and dicts that handlers make with
`turn_list` and `turn_dict`. All of them, and the arrays of responses, are freed in turns. A loop
over anything else that may be long, such as the broker's state, needs `in_turns`. A loop that must
not be interrupted is within `at_once`.

mypyc iterates over what is annotated as a list by index, without `__iter__`: modules that setup.py
compiles need `in_turns` for a `TurnList` too.
"""

from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Sequence,
    Sized,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import merge
from itertools import islice
from sys import getrefcount
from typing import Any, Final, Protocol, TypeVar

from ottla.base.errors import ProtocolError

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

PART_SIZE: Final = 256
"""The number of elements that can be processed within one turn."""

MOST_AT_ONCE = PART_SIZE
"""What has more elements is large: see `large_in_turns`."""

FREED_AT_ONCE: Final = 16
"""Elements that are freed in one step: each may hold as many others, and those again as many."""


class TurnsNeededError(Exception):
    """A request that has changed nothing yet is long; it must start again as a `Turn`."""


class Pace(Protocol):
    """The limits under which a large message is read or written."""

    def count(self, number: int) -> None:
        """Counts elements; raises if a request has more than allowed."""

    def elements(self, number: int) -> Iterable[int]:
        """Counts the elements of an array and iterates over their numbers in turns."""

    def array(self, items: Iterable[T] = ()) -> list[T]:
        """The list for the elements of an array."""


class Scout:
    """Reads short requests; raises `TurnsNeededError` for a long one."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def begin(self) -> None:
        """Resets the limit for the next request."""
        self._left = self._limit

    def count(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise TurnsNeededError

    def elements(self, number: int) -> Iterable[int]:
        self.count(number)
        return range(number)

    def array(self, items: Iterable[T] = ()) -> list[T]:
        return list(items)


class Turn:
    """A long request. `suspend` returns when it may continue, until `until_s`.

    `is_kept`: it has begun to change something, and continues even if its client has gone.
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
        "to_empty",
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
        self.to_free: deque[list[Any] | dict[Any, Any]] = deque()
        """What is freed in turns at the end, if then nobody else has it."""
        self.to_empty: list[list[Any] | dict[Any, Any]] = []

    def aside(self, deed: Callable[[], T]) -> T:
        self.leave()
        try:
            return deed()
        finally:
            self.come_back()

    def free(self) -> None:
        """Frees `to_free`: dropping 100,000 objects at once takes 3 to 20 ms.

        What a collection holds follows it in `to_free`, and is let go with it.
        """
        self.is_kept = True
        while self.to_empty:
            self._empty(self.to_empty.pop())
        while self.to_free:
            self.yield_turn()
            items = self.to_free.popleft()
            if getrefcount(items) == _ALONE_IN_VARIABLE:
                self._empty(items)

    def _empty(self, items: list[Any] | dict[Any, Any]) -> None:
        if isinstance(items, list):
            while items:
                self.yield_turn()
                del items[-FREED_AT_ONCE:]
            return
        while items:
            self.yield_turn()
            for _ in range(min(FREED_AT_ONCE, len(items))):
                items.popitem()

    def end(self) -> None:
        """Drops references to the owner, so that neither needs the garbage collector."""
        self._suspend = self.leave = self.come_back = _stay

    def suspend(self) -> None:
        self._suspend()

    def yield_turn(self) -> None:
        if self._now_s() >= self.until_s:
            self._suspend()

    def count(self, number: int) -> None:
        """Counts elements; raises `ProtocolError` if there are too many for one request."""
        self._elements_left -= number
        if self._elements_left < 0:
            raise ProtocolError(f"more than {self._max_elements} elements in one request")

    def elements(self, number: int) -> Iterator[int]:
        self.count(number)
        return self._each(range(number))

    def array(self, items: Iterable[T] = ()) -> list[T]:
        return TurnList(items)

    def written(self, items: Sequence[T], data: Sized) -> Iterator[T]:
        """Yields the elements of a response that grows in `data`, and has them freed in turns;
        raises `ProtocolError` above the limit.
        """
        if type(items) is list and len(items) > FREED_AT_ONCE:
            self.to_free.append(items)
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
    """The default of `leave` and `come_back`, if no other request waits."""


CURRENT: Final[ContextVar[Turn | None]] = ContextVar("turn", default=None)
"""The current turn. Each turn has a thread, so each has its own value."""


def yield_turn() -> None:
    """Yields to other requests if this turn has used up its time."""
    turn = CURRENT.get()
    if turn is not None:
        turn.yield_turn()


def in_a_turn() -> bool:
    """Whether the current request can be suspended."""
    return CURRENT.get() is not None


def let_others() -> bool:
    """Yields to other requests; returns whether this is possible."""
    turn = CURRENT.get()
    if turn is None:
        return False
    turn.suspend()
    return True


def in_turns(items: Iterable[T]) -> Iterable[T]:
    """The same items; yields to other requests between them."""
    turn = CURRENT.get()
    return items if turn is None else turn._each(items)


def many_in_turns(items: Sequence[T]) -> Iterable[T]:
    """Like `in_turns`, for hot paths: does not look up the turn for fewer than two items."""
    return in_turns(items) if len(items) > 1 else items


def large_in_turns(items: Collection[T]) -> Iterable[T]:
    """Like `in_turns`, but what is not large is done at once, and never suspended."""
    if is_large(items):
        return in_turns(items)
    return items[:] if isinstance(items, TurnList) else items


def is_large(items: Sized) -> bool:
    return len(items) > MOST_AT_ONCE


def parts_in_turns(items: Iterable[T], size: int = PART_SIZE) -> Iterator[list[T]]:
    """The same items in lists of at most `size`; yields to other requests between them."""
    turn = CURRENT.get()
    for part in parts_of(items, size):
        if turn is not None:
            turn.yield_turn()
        yield part


def parts_of(items: Iterable[T], size: int = PART_SIZE) -> Iterator[list[T]]:
    """The same items in lists of at most `size`."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part


InParts = Generator[None, None, T]
"""Long work that pauses between its parts, and ends with a result; see `result_of`."""


def in_one_part(deed: Callable[[], T]) -> InParts[T]:
    """What is done in one go, as the last part of long work."""
    yield from ()
    return deed()


def result_of(steps: Generator[None, None, T], between: Callable[[], None] = lambda: None) -> T:
    """Does all steps, and calls `between` after each; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        between()


class TurnList(list[T]):
    """A list of a long request, which yields to others between its elements and is freed in turns.

    What copies or joins it in C (`list`, `sorted`, `set`, `dict.fromkeys`) iterates, and so yields;
    slices, `+` and `in` do not. Outside of a turn it is a plain list.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        turn = CURRENT.get()
        if turn is None or len(self) < 2:
            return super().__iter__()
        return turn._each(super().__iter__())

    def __del__(self) -> None:
        _free_later(self)


class TurnDict(dict[K, V]):
    """A dict of a long request, as `TurnList` is a list.

    `update`, `|` and `**` copy it at once: give them its `items()`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[K]:
        return iter(in_turns(super().__iter__()))

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        return KeysView(self)

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        return _Items(self)

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        return _Values(self)

    def __del__(self) -> None:
        _free_later(self)


class _Items(ItemsView[K, V]):
    _mapping: dict[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(in_turns(dict.items(self._mapping)))


class _Values(ValuesView[V]):
    _mapping: dict[Any, V]

    def __iter__(self) -> Iterator[V]:
        return iter(in_turns(dict.values(self._mapping)))


def _free_later(items: list[Any] | dict[Any, Any]) -> None:
    """Called when the last reference is dropped: what is large is kept for `Turn.free`."""
    if len(items) > FREED_AT_ONCE:
        turn = CURRENT.get()
        if turn is not None:
            turn.to_free.append(items)


def turn_list(items: Iterable[T] = ()) -> list[T]:
    """A list that may get as many elements as a request, or more: in a turn a `TurnList`."""
    if CURRENT.get() is not None:
        return TurnList(items)
    return items if isinstance(items, list) else list(items)


def turn_dict(items: Iterable[tuple[K, V]] = ()) -> dict[K, V]:
    """A dict that may get as many elements as a request, or more: in a turn a `TurnDict`."""
    return dict(items) if CURRENT.get() is None else TurnDict(items)


def counted(names: Iterable[K]) -> dict[K, int]:
    """How often a request has each name."""
    counts: dict[K, int] = turn_dict()
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _holders_of_variable() -> int:
    items: list[Any] = []
    return getrefcount(items)


_ALONE_IN_VARIABLE: Final = _holders_of_variable()


def freed_in_turns(*collections: Collection[Any]) -> None:
    """Empties lists and dicts in turns after the request, also those that are still held: another
    thread that had them may be the last to drop them.
    """
    turn = CURRENT.get()
    if turn is not None:
        turn.to_empty += [one for one in collections if isinstance(one, list | dict)]


def sorted_in_turns(items: Iterable[T], key: Callable[[T], Any] | None = None) -> Iterable[T]:
    """The same items in order, for a single iteration."""
    if CURRENT.get() is None:
        return sorted(items, key=key)  # type: ignore[type-var, arg-type]
    parts = [sorted(part, key=key) for part in parts_in_turns(items)]  # type: ignore[type-var, arg-type]
    return in_turns(merge(*parts, key=key))  # type: ignore[arg-type]


def aside(deed: Callable[[], T]) -> T:
    """Runs `deed` while other requests have their turn. For long calls that release the interpreter
    and use nothing that others may change, such as a sync or the decompression of a batch.
    """
    turn = CURRENT.get()
    return deed() if turn is None else turn.aside(deed)


class Budget:
    """What may be done in one round of a server's loop; without a server everything is at once.

    Work that has more to do ends when `is_spent` returns true, and leaves a deadline that is due,
    so that the next round continues it. It does something each time, however little time it has.
    """

    __slots__ = ("is_spent", "run_in_turns")

    def __init__(self) -> None:
        self.is_spent: Callable[[], bool] = _never
        self.run_in_turns: Callable[[Callable[[], None]], None] = _at_once
        """Runs what is long in itself: soon, as if a client had asked for it."""

    def limit(
        self, is_spent: Callable[[], bool], run_in_turns: Callable[[Callable[[], None]], None]
    ) -> None:
        self.is_spent, self.run_in_turns = is_spent, run_in_turns

    def ask_for_turns(self) -> None:
        """Raises `TurnsNeededError`, before anything has changed, for what is long in itself."""
        if self.is_limited and not in_a_turn():
            raise TurnsNeededError

    def lift(self) -> None:
        """There is no server any more."""
        self.is_spent, self.run_in_turns = _never, _at_once

    @property
    def is_limited(self) -> bool:
        return self.is_spent is not _never


def _never() -> bool:
    return False


def _at_once(deed: Callable[[], None]) -> None:
    deed()


class OneAtATime:
    """A mutual exclusion for requests that yield: `with` waits until the others have left.

    Requests that are not suspended do not wait.
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
    """Prevents suspension, so that other requests see the block's changes as a whole."""
    token = CURRENT.set(None)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextmanager
def kept() -> Iterator[None]:
    """Completes the block even if the client no longer awaits the result."""
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
    """Counts the elements of a response beyond one per element of the request."""
    turn = CURRENT.get()
    if turn is not None:
        turn.count(number)
