"""The mark of a clean stop."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.files import read_file
from ottla.storage.files.clean_shutdown import (
    CleanShutdown,
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.testing import CrashMode, FakeFileSystem

PATH = "data/.kafka_cleanshutdown"


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("data")
    disk.sync_directory(".")
    return disk


def test_without_the_file_the_stop_was_not_clean(disk: FakeFileSystem) -> None:
    assert read_clean_shutdown(disk, PATH) is None


def test_the_text_is_kafkas(disk: FakeFileSystem) -> None:
    write_clean_shutdown(disk, PATH, 7)
    assert read_file(disk, PATH) == b'{"version":0,"brokerEpoch":7}'
    assert read_clean_shutdown(disk, PATH) == CleanShutdown(broker_epoch=7)


def test_a_removed_mark_does_not_come_back_after_a_crash(disk: FakeFileSystem) -> None:
    write_clean_shutdown(disk, PATH, 7)
    remove_clean_shutdown(disk, PATH)
    remove_clean_shutdown(disk, PATH)
    for mode in CrashMode:
        assert read_clean_shutdown(disk.crash(mode), PATH) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":1,"brokerEpoch":7}',
        b'{"version":0}',
        b"\xff",
        b"1" * 5000,
        b'{"version":0,"brokerEpoch":"7"}',
        b'{"version":0,"brokerEpoch":true}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_says_nothing_is_still_a_mark(disk: FakeFileSystem, content: bytes) -> None:
    disk.open(PATH, create=True).pwrite(content, 0)
    assert read_clean_shutdown(disk, PATH) == CleanShutdown(broker_epoch=None)


@given(st.binary(max_size=50))
def test_any_bytes_are_a_mark(content: bytes) -> None:
    disk = FakeFileSystem()
    disk.open("mark", create=True).pwrite(content, 0)
    assert read_clean_shutdown(disk, "mark") is not None
