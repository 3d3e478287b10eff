"""Before a log is copied to a tier each of its batches is checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice
from ottla.storage.remote import sound_log
from ottla.storage.remote.sound_log import check_log
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, append, open_log

BASE, COUNT = 10, 12


def rolled() -> tuple[FakeFileSystem, FileSlice]:
    """A log file of twelve batches from offset 10 on."""
    disk = FakeFileSystem()
    log = open_log(disk)
    for number in range(BASE + COUNT):
        if number == BASE:
            log.writer.roll(NOW_MS)
        append(log, b"v" * (1 + number % 3))
    log.writer.flush()
    segment = log.segments.active
    return disk, FileSlice(disk.open(segment.log.path, writable=True), 0, segment.size)


def check(found: FileSlice) -> None:
    check_log(found, BASE, BASE + COUNT)


@pytest.mark.parametrize("part_size", [1 << 18, 200, 70])
def test_a_whole_log_is_sound_in_parts_of_any_size(
    part_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sound_log, "PART_SIZE", part_size)
    check(rolled()[1])


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_of_what_a_checksum_covers_is_found(place: float, bit: int) -> None:
    _, found = rolled()
    position = int(place * found.size)
    whole = found.file.pread(found.size, 0)
    found.file.pwrite(bytes([whole[position] ^ (1 << bit)]), position)
    starts = starts_of(whole)
    start = max(one for one in starts if one <= position)
    if 12 <= position - start < 16:
        return  # The leader epoch, which no checksum covers.
    with pytest.raises(CorruptionError) as error:
        check(found)
    assert error.value.path == found.file.path
    assert error.value.position <= position


def starts_of(content: bytes) -> list[int]:
    starts, position = [], 0
    while position < len(content):
        starts.append(position)
        position += int.from_bytes(content[position + 8 : position + 12]) + 12
    return starts


def test_what_lies_after_the_segment_is_not_looked_at() -> None:
    _, found = rolled()
    found.file.pwrite(b"another batch, that is being appended", found.size)
    check(found)


def test_a_file_that_was_cut_is_named() -> None:
    _, found = rolled()
    found.file.truncate(found.size - 10)
    with pytest.raises(CorruptionError, match=f"the file ends here, and had {found.size} bytes"):
        check(found)


def test_a_log_with_a_gap_is_sound_and_one_that_ends_late_is_not() -> None:
    _, found = rolled()
    check_log(found, BASE - 2, BASE + COUNT + 3)
    with pytest.raises(CorruptionError):
        check_log(found, BASE, BASE + COUNT - 1)
