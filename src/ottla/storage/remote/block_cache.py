"""The last blocks that were read of a tier: a log is read in smaller steps than a store likes."""

from collections.abc import Callable
from typing import Final

from ottla.base.files import Buffer
from ottla.base.ids import Uuid

BLOCK_COUNT: Final = 256
SEGMENT_COUNT: Final = 1024

Load = Callable[[int, int, bool], list[Buffer]]
"""Loads the blocks from the first number to the last, and more after them if the flag says that
what follows is read next."""


class BlockCache:
    """Blocks of segments by number; at most `max_size` bytes of them, unless a single one is
    larger. Several threads may use it: then a block may be loaded twice.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._blocks: dict[tuple[Uuid, int], Buffer] = {}
        self._next: dict[Uuid, int] = {}
        """The number after the last block that was loaded, for each segment."""

    def read(self, segment: Uuid, first: int, last: int, load: Load) -> list[Buffer]:
        """The blocks from `first` to `last`; those that are missing are loaded, each run of them by
        one call.
        """
        found: list[Buffer] = []
        while first + len(found) <= last:
            number = first + len(found)
            block = self._blocks.pop((segment, number), None)
            if block is not None:
                self._blocks[segment, number] = block
                found.append(block)
            else:
                loaded = self._load(segment, number, self._end_of_run(segment, number, last), load)
                found += loaded[: last - number + 1]
        return found

    def _end_of_run(self, segment: Uuid, number: int, last: int) -> int:
        while number < last and (segment, number + 1) not in self._blocks:
            number += 1
        return number

    def _load(self, segment: Uuid, first: int, last: int, load: Load) -> list[Buffer]:
        loaded = load(first, last, first == self._next.pop(segment, 0))
        self._next[segment] = first + len(loaded)
        for number, block in enumerate(loaded, first):
            self._blocks[segment, number] = block
        self._evict()
        return loaded

    def _evict(self) -> None:
        """Keeps the blocks that were used last."""
        # Counted each time: a sum that several threads change would drift.
        blocks = list(self._blocks.items())
        count, size = len(blocks), sum(len(block) for _, block in blocks)
        for key, block in blocks[:-1]:
            if count <= BLOCK_COUNT and size <= self._max_size:
                break
            self._blocks.pop(key, None)
            count, size = count - 1, size - len(block)
        for segment in list(self._next)[:-SEGMENT_COUNT]:
            self._next.pop(segment, None)


def slice_of(blocks: list[Buffer], position: int, size: int) -> bytes:
    """`size` bytes of blocks that follow each other, from a position in the first."""
    if len(blocks) == 1:
        return bytes(memoryview(blocks[0])[position : position + size])
    parts = [memoryview(block) for block in blocks]
    parts[0] = parts[0][position:]
    parts[-1] = parts[-1][: size - sum(map(len, parts[:-1]))]
    return b"".join(parts)
