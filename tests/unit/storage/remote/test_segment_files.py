import errno

import pytest

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import FileSlice
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.testing import FakeFileSystem


def files_of(content: bytes, size: int) -> SegmentFiles:
    disk = FakeFileSystem()
    disk.make_directory("data/orders-0")
    log = disk.open("data/orders-0/00.log", create=True)
    log.pwrite(content, 0)
    return SegmentFiles(log=FileSlice(log, 0, size), indexes={})


def test_a_log_is_given_in_parts() -> None:
    files = files_of(b"0123456789", 10)
    assert list(files.log_parts(4)) == [b"0123", b"4567", b"89"]
    assert list(files.log_parts()) == [b"0123456789"]
    assert list(files_of(b"0123456789", 7).log_parts(4)) == [b"0123", b"456"]


def test_a_log_that_has_lost_its_end_is_named() -> None:
    with pytest.raises(CorruptionError, match=r"00.log at byte 10: ends before its 12 bytes"):
        list(files_of(b"0123456789", 12).log_parts(4))


def test_a_disk_that_fails_is_told_from_a_tier_that_fails() -> None:
    files = files_of(b"0123456789", 10)
    files.log.file.close()
    with pytest.raises(StorageError, match=r"00\.log") as caught:
        list(files.log_parts())
    assert caught.value.directory == "data"
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EBADF
