"""Groups the regions of many small segments, of which decoding each alone would cost most."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from ottla.base.files import Buffer

GROUP_SIZE = 4 * 1024 * 1024
"""Up to this many bytes of small regions are decoded together."""

GROWTH = 4
"""How many times as large as the last one a group may be."""


class HasData(Protocol):
    """A region of a log, as read by anyone."""

    @property
    def data(self) -> Buffer: ...


R = TypeVar("R", bound=HasData)


def region_groups(regions: Iterable[R], *, first_size: int = 0) -> Iterator[list[R]]:
    """Regions to decode together.

    The first is decoded alone, and the groups grow from there: a query with a limit reads no more
    than a few times what it needs. Whoever needs all of them gives the size of the first group.
    """
    group: list[R] = []
    size, limit = 0, first_size
    try:
        for region in regions:
            if group and size + len(region.data) > limit:
                yield group
                limit = min(GROUP_SIZE, GROWTH * limit)
                group, size = [], 0
            group.append(region)
            size += len(region.data)
            del region  # nothing here keeps its memory, which the next one may use then
            if size >= limit:
                yield group  # at once: the next region may be long in coming
                limit = min(GROUP_SIZE, max(GROWTH * limit, size))
                group, size = [], 0
    except Exception:
        if group:  # What was read before the error is yielded before it.
            yield group
        raise
    if group:
        yield group
