"""The last offset of each key, in slots of 24 bytes."""

import random

import pytest

from ottla.storage.compaction.offset_map import OffsetMap, capacity_of


def test_the_last_offset_of_each_key_is_found() -> None:
    found = OffsetMap(24 * 1000, 0.9)
    chance = random.Random(3)
    wanted = {}
    for offset in range(2000):
        key = b"key%d" % chance.randrange(880)
        found.put(key, offset)
        wanted[key] = offset
    assert {key: found.get(key) for key in wanted} == wanted
    assert found.size == len(wanted)
    assert found.get(b"another") == -1


def test_offset_0_and_the_empty_key_are_like_others() -> None:
    found = OffsetMap(24 * 4, 0.9)
    assert found.get(b"") == -1
    found.put(b"", 0)
    assert found.get(b"") == 0
    assert found.size == 1


def test_every_slot_can_be_taken() -> None:
    found = OffsetMap(24 * 16, 1.0)
    for number in range(16):
        found.put(b"%d" % number, number)
    assert [found.get(b"%d" % number) for number in range(16)] == list(range(16))


@pytest.mark.parametrize(
    ("memory", "load_factor", "capacity"),
    [(24 * 100, 0.9, 90), (24 * 100 + 23, 0.9, 90), (24 * 100, 1.0, 100), (23, 0.9, 0)],
)
def test_the_load_factor_bounds_the_keys(memory: int, load_factor: float, capacity: int) -> None:
    assert capacity_of(memory, load_factor) == capacity
    assert OffsetMap(memory, load_factor).capacity == capacity
