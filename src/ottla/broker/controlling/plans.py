"""What the active controller has begun and goes on with by itself, in parts.

Other nodes are answered between two parts. Kafka decides on all partitions of a broker in one
event; here that would take 0.3 s for 10,000 of them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from math import inf
from typing import Final, TypeVar

from ottla.base.turns import InParts, parts_of

T = TypeVar("T")

MOST_AT_ONCE: Final = 100
"""Partitions and access rules on which one part decides: 2 to 3 ms, with their records written and
replayed.
"""

FEW_AT_ONCE: Final = 40
"""The same of what takes longer: settings of resources, users, and topics that grow."""


class Plans:
    """Each has a key, and `None` between its parts; what is begun again takes the place of what was
    under way.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, Iterator[None]] = {}

    @property
    def deadline_ms(self) -> float:
        """What has more parts is due at once."""
        return -inf if self._under_way else inf

    def begin(self, key: Hashable, parts: Iterator[None]) -> None:
        self._under_way.pop(key, None)
        self._under_way[key] = parts

    def advance(self) -> None:
        """Does the next part of the plan whose turn it is."""
        key = next(iter(self._under_way), None)
        if key is None:
            return
        parts = self._under_way.pop(key)
        if next(parts, self) is None:
            self._under_way[key] = parts


def decide_in_parts(
    items: Iterable[T], decide: Callable[[list[T]], None], count: int = MOST_AT_ONCE
) -> InParts[None]:
    """Decides on all, also on none, some at a time."""
    parts = parts_of(items, count)
    decide(next(parts, []))
    for part in parts:
        yield
        decide(part)
