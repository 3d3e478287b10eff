"""Blocks on the local disk: what is read is what was written, or nothing."""

import errno
import logging
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.files import Buffer, FileSystem, read_file, write_file
from ottla.base.ids import Uuid
from ottla.storage.remote.cache_folder import Limits
from ottla.storage.remote.chunk_files import HEADER, ChunkFiles, file_name
from ottla.testing import CrashMode
from tests.support.brokers import disk

ONE, OTHER = Uuid(bytes(16)), Uuid(b"1" * 16)
FOLDER = "/d/chunks"
ROOM = Limits(1 << 20, 1000.0)


class Time:
    ms = 0.0


def files(file_system: FileSystem, limits: Limits = ROOM, time: Time | None = None) -> ChunkFiles:
    clock = time or Time()
    return ChunkFiles(file_system, FOLDER, lambda: limits, lambda: clock.ms)


def texts(blocks: Iterable[Buffer]) -> list[bytes]:
    return [bytes(one) for one in blocks]


def test_blocks_outlive_the_process_and_a_gap_ends_a_run() -> None:
    place = disk("/d")
    for number in (0, 1, 3):
        files(place).put(ONE, number, b"%d" % number)
    files(place).put(OTHER, 2, b"two")
    found = files(place)
    assert texts(found.run(ONE, 0, 3)) == [b"0", b"1"]
    assert texts(found.run(ONE, 1, 1)) == [b"1"]
    assert texts(found.run(ONE, 2, 3)) == []
    assert texts(found.run(OTHER, 2, 2)) == [b"two"]


def test_a_segment_that_is_forgotten_has_no_files_and_others_have() -> None:
    place = disk("/d")
    made = files(place)
    for segment in (ONE, OTHER):
        for number in (0, 11):
            made.put(segment, number, b"x")
    made.forget(ONE)
    assert place.list(FOLDER) == [file_name(OTHER, 0), file_name(OTHER, 11)]


def test_the_size_is_bounded_and_what_was_used_last_stays() -> None:
    place = disk("/d")
    made = files(place, Limits(3 * (HEADER.size + 10), 1000.0))
    for number in range(3):
        made.put(ONE, number, bytes(10))
    made.run(ONE, 0, 0)
    made.put(ONE, 3, bytes(10))
    assert place.list(FOLDER) == [file_name(ONE, number) for number in (0, 2, 3)]
    made.put(ONE, 4, bytes(200))  # larger than all of it
    assert len(place.list(FOLDER)) == 3


def test_what_was_not_used_for_some_time_goes() -> None:
    place, time = disk("/d"), Time()
    made = files(place, time=time)
    made.put(ONE, 0, b"old")
    made.put(ONE, 1, b"used")
    time.ms = 900.0
    made.run(ONE, 1, 1)
    time.ms = 1500.0
    made.put(ONE, 2, b"new")
    assert place.list(FOLDER) == [file_name(ONE, 1), file_name(ONE, 2)]


@given(st.integers(0, HEADER.size + 29), st.integers(1, 255))
def test_a_byte_that_has_changed_is_found_and_the_file_removed(position: int, change: int) -> None:
    place = disk("/d")
    made = files(place)
    made.put(ONE, 5, bytes(range(30)))
    path = f"{FOLDER}/{file_name(ONE, 5)}"
    content = bytearray(read_file(place, path))
    content[position] ^= change
    write_file(place, path, [content])
    assert files(place).run(ONE, 5, 5) == []
    assert place.list(FOLDER) == []


@given(st.integers(0, HEADER.size + 29))
def test_a_file_that_is_cut_off_is_found(size: int) -> None:
    place = disk("/d")
    files(place).put(ONE, 5, bytes(range(30)))
    path = f"{FOLDER}/{file_name(ONE, 5)}"
    write_file(place, path, [read_file(place, path)[:size]])
    assert files(place).run(ONE, 5, 5) == []


@pytest.mark.parametrize("other", [(ONE, 6), (OTHER, 5)], ids=["number", "upload"])
def test_a_file_under_another_ones_name_is_found_and_named(
    other: tuple[Uuid, int], caplog: pytest.LogCaptureFixture
) -> None:
    place = disk("/d")
    files(place).put(ONE, 5, b"five")
    place.rename(f"{FOLDER}/{file_name(ONE, 5)}", f"{FOLDER}/{file_name(*other)}")
    assert files(place).run(other[0], other[1], other[1]) == []
    assert f"{file_name(*other)}: is another chunk; it is fetched again" in caplog.text


@given(st.integers(0, 200))
def test_after_a_power_failure_a_block_is_whole_or_not_there(seed: int) -> None:
    place = disk("/d")
    made = files(place, Limits(4 * (HEADER.size + 3000), 1000.0))
    for number in range(8):
        made.put(ONE, number, bytes([number]) * 3000)
    after = place.crash(CrashMode.RANDOM, seed)
    again = files(after)
    for number in range(8):
        assert texts(again.run(ONE, number, number)) in ([], [bytes([number]) * 3000])
    assert not [one for one in after.list(FOLDER) if one.endswith(".tmp")] if _has(after) else True


def _has(place: FileSystem) -> bool:
    return place.status(FOLDER) is not None


def test_a_folder_of_another_use_keeps_its_files() -> None:
    place = disk("/d")
    place.make_directory(FOLDER)
    names = ["a note", "00000000000000000000.log", f"{file_name(ONE, 0)}.old"]
    for name in names:
        write_file(place, f"{FOLDER}/{name}", [b"x"])
    write_file(place, f"{FOLDER}/{file_name(ONE, 0)}.3.tmp", [b"half"])
    made = files(place, Limits(1, 0.0))
    made.put(ONE, 0, b"too large")
    assert made.run(ONE, 0, 0) == []
    assert sorted(place.list(FOLDER)) == sorted(names)


def test_a_full_disk_is_named_once_and_costs_requests_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = disk("/d")
    made = files(place)
    made.put(ONE, 0, b"zero")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(place, "rename", full)
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            made.put(ONE, number, b"x")
    (said,) = caplog.messages
    assert said.startswith(f"{FOLDER}: ")
    assert "chunks of the remote tier are fetched for each read" in said
    assert place.list(FOLDER) == [file_name(ONE, 0)], "nothing half written is left"
    assert texts(made.run(ONE, 0, 2)) == [b"zero"]
