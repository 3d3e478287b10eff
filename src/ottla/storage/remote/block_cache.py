"""The last blocks that were read of a tier, in memory and perhaps on the local disk: a log is read
in smaller steps than a store likes.
"""

from collections.abc import Callable
from typing import Final

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.storage.remote.chunk_files import ChunkFiles

BLOCK_COUNT: Final = 256
SEGMENT_COUNT: Final = 1024

Load = Callable[[int, int, bool], list[Buffer]]
"""Loads the blocks from the first number to the last, and more after them if the flag says that
what follows is read next; none after the last of the segment."""

Begin = Callable[[Callable[[], list[Buffer]]], Callable[[], list[Buffer]]]
"""Starts work elsewhere, and returns what waits for its result."""

COMING_COUNT: Final = 4
"""How many segments are read ahead of at the same time."""


class BlockCache:
    """Blocks of segments by number; at most `max_size` bytes of them, unless a single one is
    larger. Several threads may use it: then a block may be loaded twice.

    With `files` they are on the local disk too, as long as those have room: also after they have
    left the memory, and the process has ended. With `begin` instead, where blocks are read one
    after the other, the next ones are asked for while those that have come are worked on.
    """

    def __init__(
        self, max_size: int, begin: Begin | None = None, files: ChunkFiles | None = None
    ) -> None:
        assert begin is None or files is None
        self._max_size = max_size
        self._begin = begin
        self._files = files
        self._coming: dict[Uuid, tuple[int, Callable[[], list[Buffer]]]] = {}
        """The blocks that are on their way, for each segment: the first number, and their load."""
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

    def forget(self, segment: Uuid) -> None:
        """Forgets all blocks of a segment."""
        self._coming.pop(segment, None)
        if self._files is not None:
            self._files.forget(segment)
        for key in [one for one in list(self._blocks) if one[0] == segment]:
            self._blocks.pop(key, None)

    def _end_of_run(self, segment: Uuid, number: int, last: int) -> int:
        while number < last and (segment, number + 1) not in self._blocks:
            number += 1
        return number

    def _load(self, segment: Uuid, first: int, last: int, load: Load) -> list[Buffer]:
        is_sequential = first == self._next.pop(segment, 0)
        coming = self._coming.pop(segment, None)
        loaded: list[Buffer] = []
        if coming is not None and coming[0] == first:
            loaded = coming[1]()
        elif self._files is not None:
            loaded = self._files.run(segment, first, last)
        at = first + len(loaded)
        if at <= last:
            loaded += load(at, last, is_sequential)
            for number, block in enumerate(loaded[at - first :], at) if self._files else ():
                assert self._files is not None
                self._files.put(segment, number, block)
        self._next[segment] = following = first + len(loaded)
        if is_sequential and self._begin is not None:
            self._coming[segment] = following, self._begin(lambda: load(following, following, True))
            for other in list(self._coming)[:-COMING_COUNT]:
                self._coming.pop(other, None)
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
