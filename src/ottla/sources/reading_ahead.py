"""Gets the next item in another thread while the last one is worked on.

The system copies a file to memory without Python's lock, which is a third of the work of a query
that needs offsets alone.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items and the same error, each begun when the one before it is handed out.

    The first is got alone: whoever stops there, as a query with a limit, has no other one read.
    Whoever closes this iterator waits for what is being read.
    """
    first = next(items, None)
    if first is None:
        return
    yield first
    del first  # nothing here keeps its memory
    with ThreadPoolExecutor(1, "read-ahead") as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item
            del item
