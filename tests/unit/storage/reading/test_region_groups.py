"""Which regions are decoded together."""

from collections.abc import Iterator

import pytest

from ottla.storage.reading.region_groups import GROUP_SIZE, region_groups
from ottla.storage.segment.segment_reader import Region


def region(size: int) -> Region:
    return Region("log", 0, memoryview(bytes(size)), 1)


def sizes(groups: Iterator[list[Region]]) -> list[list[int]]:
    return [[len(one.data) for one in group] for group in groups]


def test_groups_grow_from_one_region_to_many() -> None:
    groups = sizes(region_groups([region(100)] * 20))
    assert list(map(len, groups)) == [1, 1, 4, 14]


def test_who_needs_all_gets_many_at_once() -> None:
    groups = sizes(region_groups([region(100)] * 20, first_size=1000))
    assert list(map(len, groups)) == [10, 10]


def test_a_large_region_is_alone_and_given_out_before_the_next_is_read() -> None:
    read: list[int] = []

    def regions() -> Iterator[Region]:
        for size in (GROUP_SIZE, GROUP_SIZE, 10, 10, GROUP_SIZE):
            read.append(size)
            yield region(size)

    groups = region_groups(regions())
    assert sizes(iter([next(groups)])) == [[GROUP_SIZE]]
    assert len(read) == 1
    assert sizes(groups) == [[GROUP_SIZE], [10, 10], [GROUP_SIZE]]


def test_what_was_read_before_an_error_is_given_out_before_it() -> None:
    def regions() -> Iterator[Region]:
        yield from [region(100)] * 5
        raise OSError

    groups = region_groups(regions())
    assert [len(next(groups)) for _ in range(3)] == [1, 1, 3]
    with pytest.raises(OSError):
        next(groups)
