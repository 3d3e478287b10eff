"""The sentences of `base/files.py` about an open file, asked of every file system."""

import errno
from collections.abc import Callable, Iterator

import pytest

from ottla.base.files import File, FileSlice
from tests.integration.conftest import Place


@pytest.fixture
def file(place: Place) -> Iterator[File]:
    file = place.file_system.open(place.path("file"), create=True)
    yield file
    file.close()


def content_of(file: File) -> bytes:
    return file.pread(1 << 20, 0)


def test_a_file_goes_by_the_path_it_was_last_told(place: Place, file: File) -> None:
    place.file_system.rename(place.path("file"), place.path("other"))
    assert file.path == place.path("file")
    file.renamed(place.path("other"))
    assert file.path == place.path("other")


def test_a_read_gives_fewer_bytes_only_at_the_end(file: File) -> None:
    file.pwrite(b"0123456789", 0)
    assert file.pread(4, 3) == b"3456"
    assert file.pread(4, 8) == b"89"
    assert file.pread(4, 10) == b""
    assert file.pread(4, 1000) == b""
    assert file.pread(0, 2) == b""
    assert FileSlice(file, 2, 3).read() == b"234"


def test_a_write_overwrites_and_extends(file: File) -> None:
    file.pwrite(b"0123456789", 0)
    file.pwrite(bytearray(b"ab"), 4)
    file.pwrite(memoryview(b"-xyz-")[1:4], 8)
    assert content_of(file) == b"0123ab67xyz"
    assert file.size() == 11


def test_a_gap_before_a_write_reads_as_zeros(file: File) -> None:
    file.pwrite(b"ab", 0)
    file.pwrite(b"cd", 5)
    assert content_of(file) == b"ab\0\0\0cd"


def test_a_write_of_nothing_does_not_extend(file: File) -> None:
    file.pwrite(b"", 100)
    file.pwritev([], 100)
    file.pwritev([b"", b""], 100)
    assert file.size() == 0


def test_buffers_are_written_one_after_the_other(file: File) -> None:
    file.pwritev([b"ab", bytearray(b""), memoryview(b"cde"), bytearray(b"f")], 1)
    assert content_of(file) == b"\0abcdef"


@pytest.mark.parametrize("count", [1023, 1024, 1025, 3000])
def test_any_number_of_buffers_is_written(file: File, count: int) -> None:
    buffers = [b"%d," % number for number in range(count)]
    file.pwritev(buffers, 3)
    assert content_of(file) == b"\0\0\0" + b"".join(buffers)


def test_a_cut_and_an_extension_with_zeros(file: File) -> None:
    file.pwrite(b"0123456789", 0)
    file.truncate(4)
    assert content_of(file) == b"0123"
    file.truncate(6)
    assert content_of(file) == b"0123\0\0"


def test_two_openings_see_each_other(place: Place, file: File) -> None:
    reader = place.file_system.open(file.path)
    file.pwrite(b"abc", 0)
    assert content_of(reader) == b"abc"
    file.truncate(1)
    assert reader.size() == 1
    reader.close()


def test_a_map_is_read_only_and_follows_later_writes(place: Place, file: File) -> None:
    file.pwrite(b"0123456789", 0)
    view = file.map(8)
    assert view.readonly
    assert view.nbytes == 8
    file.pwrite(b"ab", 2)
    file.pwritev([b"y", b"z", b"beyond"], 6)
    other = place.file_system.open(file.path, writable=True)
    other.pwrite(b"!", 0)
    other.close()
    assert bytes(view) == b"!1ab45yz"
    view.release()


def test_a_file_grows_under_a_map(file: File) -> None:
    file.pwrite(b"0123", 0)
    views = [file.map(4), file.map(2)]
    file.pwrite(b"456", 4)
    file.truncate(100)
    file.pwrite(b"a", 1)
    assert [bytes(view) for view in views] == [b"0a23", b"0a"]
    for view in views:
        view.release()


def test_a_file_is_cut_down_to_a_map_and_below_a_released_one(file: File) -> None:
    file.pwrite(b"0123456789", 0)
    view = file.map(4)
    file.truncate(4)
    assert bytes(view) == b"0123"
    view.release()
    file.truncate(0)
    assert file.size() == 0


def test_a_map_outlives_its_file_and_the_name(place: Place) -> None:
    path = place.write("mapped", b"0123")
    file = place.file_system.open(path)
    view = file.map(4)
    file.close()
    place.file_system.remove(path)
    assert bytes(view) == b"0123"
    view.release()


def test_a_map_longer_than_the_file_is_refused(file: File) -> None:
    file.pwrite(b"0123", 0)
    with pytest.raises(ValueError, match="5 bytes"):
        file.map(5)


def test_an_empty_map_is_empty(file: File) -> None:
    with file.map(0) as view:
        assert view.nbytes == 0
        assert view.readonly
        file.truncate(0)


def test_a_file_opened_for_reading_is_not_written(place: Place) -> None:
    file = place.file_system.open(place.write("a", b"1"))
    for write in (lambda: file.pwrite(b"2", 0), lambda: file.pwritev([b"2"], 0)):
        with pytest.raises(OSError) as raised:
            write()
        assert raised.value.errno == errno.EBADF
    with pytest.raises(OSError) as raised:
        file.truncate(0)
    assert raised.value.errno == errno.EINVAL
    file.sync()
    file.close()
    assert place.read("a") == b"1"


USES: dict[str, Callable[[File], object]] = {
    "size": lambda file: file.size(),
    "pread": lambda file: file.pread(1, 0),
    "pwrite": lambda file: file.pwrite(b"1", 0),
    "pwritev": lambda file: file.pwritev([b"1"], 0),
    "truncate": lambda file: file.truncate(0),
    "map": lambda file: file.map(1),
    "map of nothing": lambda file: file.map(0),
    "sync": lambda file: file.sync(),
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_file_is_of_no_use(file: File, use: str) -> None:
    file.pwrite(b"1", 0)
    file.close()
    file.close()
    with pytest.raises(OSError) as raised:
        USES[use](file)
    assert raised.value.errno == errno.EBADF


def test_positions_and_sizes_are_not_negative(file: File) -> None:
    for use in (
        lambda: file.pread(1, -1),
        lambda: file.pread(-1, 0),
        lambda: file.pwrite(b"1", -1),
        lambda: file.pwritev([b"1"], -1),
        lambda: file.truncate(-1),
    ):
        with pytest.raises(OSError) as raised:
            use()
        assert raised.value.errno == errno.EINVAL


def test_a_sync_changes_nothing_that_is_read(file: File) -> None:
    file.pwrite(b"0123", 0)
    file.sync()
    assert content_of(file) == b"0123"
