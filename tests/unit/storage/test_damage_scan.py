"""A log with damage in it: where the damage is said to be, and what is still found after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.record.legacy import build_message
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch, scan_log
from ottla.testing import FakeFileSystem
from tests.support.logs import batch

SIZE = len(batch(b"0", b"1"))


def batches(count: int, first_offset: int = 0) -> bytearray:
    out = bytearray()
    for number in range(count):
        out += batch(b"0", b"1", base_offset=first_offset + 2 * number)
    return out


def scan(content: bytes, base_offset: int = 0) -> list[ScannedBatch | DamagedRegion]:
    disk = FakeFileSystem()
    file = disk.open("log", create=True)
    file.pwrite(content, 0)
    return list(scan_log(file, base_offset))


def shape(found: list[ScannedBatch | DamagedRegion]) -> list[str | tuple[int, int]]:
    """Good batches as positions, damage as (position, size)."""
    return [
        (one.position, one.size) if isinstance(one, DamagedRegion) else f"{one.position}"
        for one in found
    ]


def flipped(content: bytearray, position: int) -> bytearray:
    content[position] ^= 0xFF
    return content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (batches(2), ["0", f"{SIZE}"]),
        (batches(2)[:-1], ["0", (SIZE, SIZE - 1)]),
        (batches(2)[: SIZE + 5], ["0", (SIZE, 5)]),
        (flipped(batches(3), 2 * SIZE - 1), ["0", (SIZE, SIZE), f"{2 * SIZE}"]),
        (flipped(batches(3), SIZE + 8), ["0", (SIZE, SIZE), f"{2 * SIZE}"]),
        (flipped(batches(3), SIZE + 16), ["0", (SIZE, SIZE), f"{2 * SIZE}"]),
        (flipped(batches(2), SIZE + 11), ["0", (SIZE, SIZE)]),
        (batches(1) + bytes(1000), ["0", (SIZE, 1000)]),
        (batches(1) + bytes(1000) + batches(1, 2), ["0", (SIZE, 1000), f"{SIZE + 1000}"]),
        (batches(1) + b"\xff" * 77 + batches(1, 2), ["0", (SIZE, 77), f"{SIZE + 77}"]),
        (bytearray(b"garbage"), [(0, 7)]),
        (bytearray(), []),
    ],
    ids=[
        "sound", "torn body", "torn header", "bad record", "bad length", "bad magic",
        "last length", "zeros behind", "a hole of zeros", "a hole of ones", "garbage", "empty",
    ],
)  # fmt: skip
def test_damage_ends_where_the_next_whole_batch_begins(
    content: bytearray, expected: list[str | tuple[int, int]]
) -> None:
    assert shape(scan(bytes(content))) == expected


def test_zeros_to_the_end_are_distinguished() -> None:
    *_, last = scan(bytes(batches(1) + bytes(5000)))
    assert isinstance(last, DamagedRegion)
    assert last.is_zero
    assert last.is_tail
    assert last.reason == "5000 zero bytes to the end of the file"


def test_a_batch_inside_a_damaged_value_is_not_taken_for_one_of_this_log() -> None:
    outer = batch(bytes(batch(b"inner", base_offset=2)) + b"behind", base_offset=2)
    content = batches(1) + flipped(outer, 8) + batches(1, 4)
    assert shape(scan(bytes(content))) == ["0", (SIZE, len(outer)), f"{SIZE + len(outer)}"]


def test_a_set_of_batches_inside_a_damaged_value_is_none_of_this_log_either() -> None:
    outer = batch(bytes(batches(2, first_offset=2)), base_offset=2)
    content = batches(1) + flipped(outer, 40) + batches(1, 4)
    assert shape(scan(bytes(content))) == ["0", (SIZE, len(outer)), f"{SIZE + len(outer)}"]


def test_a_size_that_spans_the_next_batch_hides_it_not() -> None:
    content = batches(4)
    content[SIZE + 8 : SIZE + 12] = (2 * SIZE - 12).to_bytes(4)
    assert shape(scan(bytes(content))) == ["0", (SIZE, SIZE), f"{2 * SIZE}", f"{3 * SIZE}"]


def test_offsets_of_another_segment_are_no_place_to_continue() -> None:
    content = batches(1) + b"\xff" * 9 + batches(1, first_offset=1 << 40)
    assert shape(scan(bytes(content))) == ["0", (SIZE, 9 + SIZE)]


def test_messages_of_the_old_formats_are_found_after_damage() -> None:
    one, two = (
        build_message(b"k", b"v", magic=magic, offset=magic, timestamp_ms=5) for magic in (0, 1)
    )
    found = scan(one + b"\xfe" * 50 + two)
    assert shape(found) == ["0", (len(one), 50), f"{len(one) + 50}"]


def test_a_batch_larger_than_a_window_is_read_whole() -> None:
    large = batch(bytes(3 << 20))
    content = large + batches(1, 1)
    assert shape(scan(bytes(content))) == ["0", f"{len(large)}"]
    large[-1] ^= 1
    assert shape(scan(bytes(large + batches(1, 1)))) == [(0, len(large)), f"{len(large)}"]


@given(st.binary(max_size=400), st.integers(0, 1 << 62))
def test_any_bytes_are_accounted_for_to_the_last(content: bytes, base_offset: int) -> None:
    position = 0
    for one in scan(content, base_offset):
        assert one.position == position
        assert one.end > position
        position = one.end
    assert position == len(content)


@given(st.integers(0, 6 * SIZE - 1), st.integers(1, 255))
def test_one_bad_byte_costs_one_batch(position: int, bits: int) -> None:
    content = batches(6)
    content[position] ^= bits
    good = [one for one in scan(bytes(content)) if isinstance(one, ScannedBatch)]
    assert len(good) >= 5
