"""Snapshots of producers."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.codec.crc32c import crc32c
from ottla.storage.index.producer_snapshot import (
    HEADER,
    ProducerSnapshotEntry,
    newest_snapshot,
    read_snapshot,
    write_snapshot,
)
from ottla.testing import FakeFileSystem

PATH = "00000000000000000042.snapshot"
ENTRY = ProducerSnapshotEntry(
    producer_id=12,
    epoch=1,
    last_sequence=9,
    last_offset=41,
    offset_delta=4,
    timestamp_ms=1_700_000_000_000,
    coordinator_epoch=2,
    transaction_first_offset=30,
)

INT16, INT32, INT64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
ENTRIES = st.lists(
    st.builds(
        ProducerSnapshotEntry,
        producer_id=INT64,
        epoch=INT16,
        last_sequence=INT32,
        last_offset=INT64,
        offset_delta=INT32,
        timestamp_ms=INT64,
        coordinator_epoch=INT32,
        transaction_first_offset=st.none() | st.integers(0, 2**63 - 1),
    ),
    max_size=5,
)


def written(entries: list[ProducerSnapshotEntry]) -> bytes:
    disk = FakeFileSystem()
    write_snapshot(disk, PATH, entries)
    return read_file(disk, PATH)


def read(content: bytes) -> list[ProducerSnapshotEntry]:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(content, 0)
    return read_snapshot(disk, PATH)[0]


def checksummed(version: int, body: bytes) -> bytes:
    return version.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def test_no_producers_are_ten_bytes() -> None:
    assert written([]) == bytes.fromhex("000148674bc700000000")


def test_an_entry_has_46_bytes() -> None:
    content = written([ENTRY])
    assert content[6:] == bytes.fromhex(
        "00000001" "000000000000000c" "0001" "00000009" "0000000000000029" "00000004"
        "0000018bcfe56800" "00000002" "000000000000001e"
    )  # fmt: skip


@pytest.mark.slow
@given(ENTRIES)
def test_entries_are_read_back_in_their_order(entries: list[ProducerSnapshotEntry]) -> None:
    disk = FakeFileSystem()
    checksum = write_snapshot(disk, PATH, entries)
    assert read_snapshot(disk.crash(), PATH, checksum) == (entries, checksum)


def test_a_whole_snapshot_that_is_not_the_expected_one_is_refused() -> None:
    disk = FakeFileSystem()
    expected = write_snapshot(disk, PATH, [ENTRY])
    write_snapshot(disk, PATH, [])
    with pytest.raises(CorruptionError, match="intact, but not the snapshot that was taken here"):
        read_snapshot(disk, PATH, expected)
    assert newest_snapshot(disk, {9: PATH}, {9: expected}, range(21)) is None


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        read_snapshot(FakeFileSystem(), PATH)


@pytest.mark.slow
@given(ENTRIES, st.data())
def test_a_cut_snapshot_is_corrupt(
    entries: list[ProducerSnapshotEntry], data: st.DataObject
) -> None:
    content = written(entries)
    size = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(CorruptionError) as error:
        read(content[:size])
    assert error.value.path == PATH


@pytest.mark.slow
@given(ENTRIES, st.binary(min_size=1, max_size=50))
def test_trailing_bytes_are_corruption(entries: list[ProducerSnapshotEntry], more: bytes) -> None:
    with pytest.raises(CorruptionError):
        read(written(entries) + more)


@given(st.integers(0, 55), st.integers(1, 255))
def test_any_changed_byte_is_found(position: int, difference: int) -> None:
    content = bytearray(written([ENTRY]))
    content[position] ^= difference
    with pytest.raises(CorruptionError):
        read(bytes(content))


@pytest.mark.parametrize("version", [0, 2, 0x7FFF])
def test_other_versions_are_not_known(version: int) -> None:
    with pytest.raises(CorruptionError, match="version"):
        read(checksummed(version, bytes(4)))


@given(st.binary(max_size=120))
def test_a_count_that_does_not_fit_is_corrupt_even_with_a_good_checksum(body: bytes) -> None:
    count = int.from_bytes(body[:4], "big", signed=True)
    if len(body) >= 4 and len(body) == 4 + 46 * count:
        assert len(read(checksummed(1, body))) == count
    else:
        with pytest.raises(CorruptionError):
            read(checksummed(1, body))


@given(st.binary(max_size=80))
def test_any_bytes_are_producers_or_corruption(content: bytes) -> None:
    try:
        assert len(read(content)) == HEADER.unpack_from(content)[2]
    except CorruptionError as error:
        assert error.path == PATH  # noqa: PT017
