"""All entries of an index file, sound or not."""

from ottla.storage.diagnosis.index_entries import parse_index
from ottla.storage.diagnosis.roles import Role
from ottla.storage.index import offset_index, time_index


def offsets(*pairs: tuple[int, int]) -> bytes:
    return b"".join(offset_index.ENTRY.pack(*pair) for pair in pairs)


def test_offsets_are_absolute_and_zeros_at_the_end_are_room() -> None:
    found = parse_index(offsets((1, 100), (5, 300)) + bytes(24), Role.OFFSET_INDEX, 1000)
    assert found.entries == [(1001, 100), (1005, 300)]
    assert (found.free_size, found.excess_size) == (24, 0)
    assert [found.position_of(number) for number in range(2)] == [0, 8]


def test_a_zero_entry_between_others_is_an_entry() -> None:
    content = offsets((1, 100), (0, 0), (5, 300))
    assert parse_index(content, Role.OFFSET_INDEX, 0).entries == [(1, 100), (0, 0), (5, 300)]


def test_an_entry_that_ends_in_zeros_is_whole() -> None:
    content = offsets((1, 0x01000000))
    assert parse_index(content, Role.OFFSET_INDEX, 0).entries == [(1, 0x01000000)]


def test_too_few_bytes_for_an_entry_are_excess() -> None:
    found = parse_index(offsets((1, 100)) + bytes(8) + b"abc", Role.OFFSET_INDEX, 0)
    assert found.excess_size == 3
    assert found.excess_position == 16


def test_a_time_index_of_one_zero_entry_has_the_time_zero() -> None:
    entry = time_index.ENTRY.pack(0, 0)
    assert parse_index(entry, Role.TIME_INDEX, 50).entries == [(0, 50)]
    assert parse_index(entry * 2, Role.TIME_INDEX, 50).entries == []


def test_times_come_before_offsets() -> None:
    content = time_index.ENTRY.pack(1_700_000_000_000, 7)
    assert parse_index(content, Role.TIME_INDEX, 50).entries == [(1_700_000_000_000, 57)]
