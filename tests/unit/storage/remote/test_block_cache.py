from collections.abc import Callable

import pytest

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.objects.background import begin
from ottla.storage.remote.block_cache import BLOCK_COUNT, BlockCache, slice_of
from ottla.storage.remote.cache_folder import Limits
from ottla.storage.remote.chunk_files import ChunkFiles
from tests.support.brokers import disk

ONE, OTHER = Uuid(bytes(16)), Uuid(b"1" * 16)


class Store:
    """Blocks of ten bytes; what is asked for is written down."""

    def __init__(self, ahead: int = 0) -> None:
        self.asked: list[tuple[int, int]] = []
        self._ahead = ahead

    def load(self, first: int, last: int, is_sequential: bool) -> list[Buffer]:
        last = max(last, first + self._ahead - 1) if is_sequential else last
        self.asked.append((first, last))
        return [f"{number:010}".encode() for number in range(first, last + 1)]


def numbers(blocks: list[Buffer]) -> list[int]:
    return [int(bytes(one)) for one in blocks]


def test_blocks_that_were_read_are_not_loaded_again() -> None:
    cache, store = BlockCache(1000), Store()
    assert numbers(cache.read(ONE, 3, 5, store.load)) == [3, 4, 5]
    assert numbers(cache.read(ONE, 4, 5, store.load)) == [4, 5]
    assert numbers(cache.read(OTHER, 4, 4, store.load)) == [4]
    assert store.asked == [(3, 5), (4, 4)]


def test_a_segment_that_is_forgotten_is_loaded_again_and_others_are_not() -> None:
    cache, store = BlockCache(1000), Store()
    for segment in (ONE, OTHER):
        cache.read(segment, 3, 3, store.load)
    cache.forget(ONE)
    for segment in (ONE, OTHER):
        assert numbers(cache.read(segment, 3, 3, store.load)) == [3]
    assert len(store.asked) == 3


def test_each_run_of_missing_blocks_is_loaded_at_once() -> None:
    cache, store = BlockCache(1000), Store()
    for number in (2, 6):
        cache.read(ONE, number, number, store.load)
    assert numbers(cache.read(ONE, 0, 8, store.load)) == list(range(9))
    assert store.asked[2:] == [(0, 1), (3, 5), (7, 8)]


def test_more_is_loaded_only_where_reading_goes_on() -> None:
    cache, store = BlockCache(1000), Store(ahead=4)
    for number in (0, 1, 2, 3, 4, 20, 7, 8):
        assert numbers(cache.read(ONE, number, number, store.load)) == [number]
    assert store.asked == [(0, 3), (4, 7), (20, 20), (8, 8)]


def test_the_blocks_that_were_used_last_stay_within_the_limit() -> None:
    cache, store = BlockCache(30), Store()
    for number in (1, 2, 3, 1, 4):
        cache.read(ONE, number, number, store.load)
    store.asked.clear()
    for number in (4, 1, 3, 2):
        cache.read(ONE, number, number, store.load)
    assert store.asked == [(2, 2)]


def test_a_block_that_is_larger_than_the_limit_stays_until_the_next_is_read() -> None:
    cache, store = BlockCache(5), Store()
    for number in (1, 1, 2, 1):
        cache.read(ONE, number, number, store.load)
    assert store.asked == [(1, 1), (2, 2), (1, 1)]


def test_small_blocks_are_limited_in_number() -> None:
    cache, store = BlockCache(1 << 30), Store()
    assert len(cache.read(ONE, 0, 2 * BLOCK_COUNT, store.load)) == 2 * BLOCK_COUNT + 1
    cache.read(ONE, BLOCK_COUNT + 1, 2 * BLOCK_COUNT, store.load)
    assert len(store.asked) == 1
    cache.read(ONE, BLOCK_COUNT, BLOCK_COUNT, store.load)
    assert store.asked[1:] == [(BLOCK_COUNT, BLOCK_COUNT)]


def test_bytes_are_cut_out_of_one_block_or_several() -> None:
    blocks: list[Buffer] = [b"01234", memoryview(b"56789"), bytearray(b"abc")]
    assert slice_of(blocks[:1], 1, 3) == b"123"
    assert slice_of(blocks[:2], 4, 2) == b"45"
    assert slice_of(blocks, 3, 9) == b"3456789ab"


class Later:
    """Work that has begun, and is done when it is waited for."""

    def __init__(self) -> None:
        self.begun = 0

    def begin(self, work: Callable[[], list[Buffer]]) -> Callable[[], list[Buffer]]:
        self.begun += 1
        return work


def test_the_next_blocks_are_asked_for_before_they_are_read() -> None:
    store, later = Store(ahead=4), Later()
    cache = BlockCache(1000, later.begin)
    assert numbers(cache.read(ONE, 0, 1, store.load)) == [0, 1]
    assert (store.asked, later.begun) == ([(0, 3)], 1)
    for number in range(2, 12):
        assert numbers(cache.read(ONE, number, number, store.load)) == [number]
    assert (store.asked, later.begun) == ([(0, 3), (4, 7), (8, 11)], 3)


def test_who_goes_elsewhere_does_not_get_what_was_coming() -> None:
    store, later = Store(ahead=4), Later()
    cache = BlockCache(1000, later.begin)
    cache.read(ONE, 0, 0, store.load)
    assert numbers(cache.read(ONE, 9, 10, store.load)) == [9, 10]
    assert numbers(cache.read(ONE, 4, 4, store.load)) == [4]
    assert (store.asked, later.begun) == ([(0, 3), (9, 10), (4, 4)], 1)


def test_more_blocks_than_are_coming_are_loaded_after_them() -> None:
    store = Store(ahead=4)
    cache = BlockCache(1000, Later().begin)
    cache.read(ONE, 0, 3, store.load)
    assert numbers(cache.read(ONE, 4, 14, store.load)) == [*range(4, 15)]
    assert store.asked == [(0, 3), (4, 7), (8, 14)]


def test_what_was_coming_fails_where_it_is_read() -> None:
    class Broken(Store):
        def load(self, first: int, last: int, is_sequential: bool) -> list[Buffer]:
            if first >= 4:
                raise ValueError("no more")
            return super().load(first, last, is_sequential)

    store = Broken(ahead=4)
    cache = BlockCache(1000, begin)
    assert numbers(cache.read(ONE, 0, 3, store.load)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no more"):
        cache.read(ONE, 4, 4, store.load)
    assert numbers(cache.read(ONE, 0, 3, store.load)) == [0, 1, 2, 3]


def test_what_has_left_the_memory_is_read_from_the_disk() -> None:
    place = disk("/d")

    def cache() -> BlockCache:
        files = ChunkFiles(place, "/d/chunks", lambda: Limits(1 << 20, 1e9), lambda: 0.0)
        return BlockCache(20, files=files)

    one, store = cache(), Store()
    assert numbers(one.read(ONE, 0, 3, store.load)) == [0, 1, 2, 3]
    assert numbers(one.read(ONE, 0, 5, store.load)) == [0, 1, 2, 3, 4, 5]
    assert numbers(cache().read(ONE, 1, 4, store.load)) == [1, 2, 3, 4]
    assert store.asked == [(0, 3), (4, 5)]
    one.forget(ONE)
    assert numbers(cache().read(ONE, 1, 1, store.load)) == [1]
    assert store.asked[2:] == [(1, 1)]
