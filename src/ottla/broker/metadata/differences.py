"""What differs between two states."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def differing(old: Mapping[K, V], new: Mapping[K, V], nothing: V) -> Iterator[tuple[K, V, V]]:
    """The keys whose values differ, with both values."""
    if old is new:
        return
    for key, value in new.items():
        before = old.get(key, nothing)
        if before is not value and before != value:
            yield key, before, value
    for key, value in old.items():
        if key not in new:
            yield key, value, nothing
