"""A request in turns, which is suspended at every occasion."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from ottla.base.turns import CURRENT, Turn


@contextmanager
def in_turns_of(suspend: Callable[[int], None]) -> Iterator[None]:
    """Suspends at every occasion, and says which it is."""
    turns, ticks = count(), count()
    turn = Turn(
        lambda: suspend(next(turns)),
        lambda: float(next(ticks)),
        max_elements=10**9,
        max_size=10**9,
    )
    token = CURRENT.set(turn)
    try:
        yield
    finally:
        CURRENT.reset(token)
