"""Listing and reading segments that somebody else may be changing."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.codec.compression import Compression
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.storage.files.filenames import FileKind, FileName, log_file_name
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.segment import segment_reader
from ottla.storage.segment.partition_files import LISTING_ATTEMPTS, SegmentFiles, list_partition
from ottla.storage.segment.segment_reader import SegmentReader
from ottla.testing import FakeFileSystem

BASE = 100
LOG = log_file_name(BASE)
INDEX = FileName(offset=BASE, kind=FileKind.OFFSET_INDEX).text


def batch(base_offset: int, count: int = 2, size: int = 10) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset)
    for _ in range(count):
        builder.append(None, b"v" * size, 0)
    return builder.build()


def write(disk: FakeFileSystem, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.close()


def reader_of(disk: FakeFileSystem, content: bytes) -> SegmentReader:
    write(disk, LOG, content)
    files = SegmentFiles(base_offset=BASE, log_path=LOG, size=len(content))
    return SegmentReader(disk, files)


def offsets_in(reader: SegmentReader, from_offset: int, until_offset: int) -> list[int]:
    return [
        batch.base_offset
        for region in reader.regions(from_offset, until_offset)
        for batch in iter_batches(region.data)
    ]


@pytest.fixture(autouse=True)
def _indexes_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of these tests are so short that their indexes would be skipped."""
    monkeypatch.setattr(segment_reader, "SHORT_SIZE", 0)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log() -> bytes:
    """Ten batches of two records from offset 100, with a gap at 110 that compaction left."""
    return b"".join(batch(BASE + 2 * number) for number in range(11) if number != 5)


@pytest.fixture(params=[1, 100, 200, 10_000])
def region_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(segment_reader, "REGION_SIZE", request.param)
    return int(request.param)


@pytest.mark.usefixtures("region_size")
@pytest.mark.parametrize(
    ("from_offset", "until_offset", "first", "last"),
    [
        (100, 122, 100, 120),
        (101, 121, 100, 120),
        (103, 104, 102, 102),
        (102, 103, 102, 102),
        (108, 113, 108, 112),
        (110, 112, 112, 110),
        (110, 113, 112, 112),
        (120, 122, 120, 120),
        (122, 130, 122, 120),
    ],
)
def test_a_region_has_the_batches_that_reach_into_the_range(
    disk: FakeFileSystem,
    log: bytes,
    from_offset: int,
    until_offset: int,
    first: int,
    last: int,
) -> None:
    expected = [offset for offset in range(first, last + 1, 2) if offset != 110]
    assert offsets_in(reader_of(disk, log), from_offset, until_offset) == expected


def test_regions_are_whole_batches_of_about_the_size_asked_for(
    disk: FakeFileSystem, log: bytes, region_size: int
) -> None:
    reader = reader_of(disk, log)
    regions = list(reader.regions(BASE, 122))
    assert b"".join(region.data for region in regions) == log
    size = len(batch(BASE))
    assert all(len(region.data) <= max(region_size, size) for region in regions)
    position = 0
    for region in regions:
        assert region.position == position
        position += len(region.data)
        assert region.next_offset == list(iter_batches(region.data))[-1].last_offset + 1


def test_a_batch_larger_than_a_region_is_read_whole(
    disk: FakeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reader, "REGION_SIZE", 200)
    content = batch(100) + batch(102, size=5000) + batch(104)
    reader = reader_of(disk, content)
    assert offsets_in(reader, 100, 106) == [100, 102, 104]


def test_old_formats_are_found_by_their_last_offset(disk: FakeFileSystem) -> None:
    content = b"".join(
        build_message(None, b"v", magic=1, offset=100 + number) for number in range(5)
    )
    assert offsets_in(reader_of(disk, content), 102, 104) == [102, 103]


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, 80])
def test_a_cut_batch_inside_the_range_is_corrupt(
    disk: FakeFileSystem, region_size: int, cut: int
) -> None:
    reader = reader_of(disk, batch(100) + batch(102)[:cut])
    with pytest.raises(CorruptionError) as error:
        offsets_in(reader, 100, 104)
    assert (error.value.path, error.value.position) == (LOG, len(batch(100)))


def test_zeros_inside_the_range_are_corrupt(disk: FakeFileSystem, region_size: int) -> None:
    reader = reader_of(disk, batch(100) + bytes(500))
    with pytest.raises(CorruptionError) as error:
        offsets_in(reader, 100, 104)
    assert error.value.position == len(batch(100))


def test_what_follows_the_range_is_not_looked_at(disk: FakeFileSystem, region_size: int) -> None:
    write(disk, INDEX, b"")
    for tail in (b"\0", bytes(100), b"\xff" * 100, batch(0), batch(104)[:70]):
        reader = reader_of(disk, batch(100) + batch(102) + tail)
        assert offsets_in(reader, 100, 102) == [100]
        assert offsets_in(reader, 100, 104) == [100, 102]


def test_a_file_that_is_cut_under_way_is_corrupt(
    disk: FakeFileSystem, log: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reader, "REGION_SIZE", 200)
    regions = reader_of(disk, log).regions(BASE, 122)
    next(regions)
    disk.open(LOG, writable=True).truncate(200)
    with pytest.raises(CorruptionError, match="truncated"):
        list(regions)


@pytest.mark.parametrize(
    ("tail", "end"),
    [
        (b"", 104),
        (bytes(1), 104),
        (bytes(1000), 104),
        (b"\xff" * 100, 104),
        (batch(104)[:70], 104),
        (batch(104)[:-1], 104),
        (batch(104)[:-1] + b"x", 104),
        (batch(104)[:70] + bytes(50), 104),
        (batch(104), 106),
        (batch(10), 104),
    ],
)
def test_the_log_ends_before_what_is_not_a_sound_batch(
    disk: FakeFileSystem, tail: bytes, end: int
) -> None:
    assert reader_of(disk, batch(100) + batch(102) + tail).tail().end_offset == end


def test_a_log_does_not_seem_to_shrink_while_its_last_batch_is_being_written(
    disk: FakeFileSystem, log: bytes
) -> None:
    """The index may know of a batch that was not whole yet when the file was opened."""
    whole = log + batch(BASE + 22)
    reader = reader_of(disk, log + batch(BASE + 22)[:20])
    index = OffsetIndex(disk, INDEX, base_offset=BASE)
    index.append(BASE + 23, len(log))
    index.abandon()
    write(disk, LOG, whole)
    assert reader.tail().end_offset == BASE + 22


def test_an_empty_segment_ends_where_it_begins(disk: FakeFileSystem) -> None:
    assert reader_of(disk, b"").tail().end_offset == BASE
    assert reader_of(disk, bytes(1000)).tail().end_offset == BASE


def test_an_index_shortens_the_way(disk: FakeFileSystem, log: bytes) -> None:
    size = len(batch(BASE))
    index = OffsetIndex(disk, INDEX, base_offset=BASE)
    index.append(103, size)
    index.append(109, 4 * size)
    index.abandon()
    reader = reader_of(disk, log)
    assert reader.search_start(102) == 0
    assert reader.search_start(103) == size
    assert reader.search_start(109) == 4 * size
    assert reader.tail().end_offset == 122


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 80,
        b"\xff" * 83,
        bytes.fromhex("0000000300000001"),
        bytes.fromhex("000000037fffffff"),
        bytes.fromhex("00000003000000a0"),
        bytes(8),
        bytes.fromhex("0000000a000000500000000500000080"),
    ],
)
def test_a_damaged_index_does_not_mislead(disk: FakeFileSystem, log: bytes, content: bytes) -> None:
    write(disk, INDEX, content)
    reader = reader_of(disk, log)
    assert reader.tail().end_offset == 122
    assert offsets_in(reader, 103, 122)[0] == 102


@pytest.mark.slow
@given(st.binary(max_size=64), st.integers(100, 121))
def test_no_index_whatever_changes_what_is_read(content: bytes, offset: int) -> None:
    disk = FakeFileSystem()
    write(disk, INDEX, content)
    reader = reader_of(disk, b"".join(batch(BASE + 2 * number) for number in range(11)))
    assert offsets_in(reader, offset, 122) == list(range(offset - offset % 2, 122, 2))


@given(st.binary(max_size=200), st.integers(0, 2))
def test_any_bytes_are_batches_or_corruption(content: bytes, good: int) -> None:
    whole = b"".join(batch(BASE + 2 * number) for number in range(good))
    reader = reader_of(FakeFileSystem(), whole + content)
    end = reader.tail().end_offset
    assert end >= BASE + 2 * good
    assert len(offsets_in(reader, BASE, end)) >= good
    try:
        regions = list(reader.regions(BASE, 2**62))
    except CorruptionError as error:
        assert error.position >= len(whole)  # noqa: PT017
    else:
        assert b"".join(region.data for region in regions).startswith(whole)


def test_compressed_batches_are_handed_out_as_they_are(disk: FakeFileSystem) -> None:
    builder = RecordBatchBuilder(base_offset=100, compression=Compression.ZSTD)
    builder.append(None, b"v" * 1000, 0)
    content = builder.build()
    regions = list(reader_of(disk, content).regions(100, 101))
    assert [bytes(region.data) for region in regions] == [content]


def names_in(disk: FakeFileSystem) -> list[str]:
    return [
        segment.log_path.removeprefix("t-0/") for segment in list_partition(disk, "t-0").segments
    ]


def test_segments_are_listed_in_their_order(disk: FakeFileSystem) -> None:
    disk.make_directory("t-0")
    for name in ("b", log_file_name(20), INDEX, log_file_name(3) + ".deleted", log_file_name(3)):
        write(disk, "t-0/" + name, b"x")
    assert names_in(disk) == [log_file_name(3), log_file_name(20)]
    assert [segment.size for segment in list_partition(disk, "t-0").segments] == [1, 1]


def test_a_swap_file_stands_in_for_a_log_that_has_gone(disk: FakeFileSystem) -> None:
    disk.make_directory("t-0")
    for name in (".log", ".log.deleted", ".log.swap", ".log.cleaned"):
        write(disk, "t-0/" + "0" * 20 + name, b"x")
    assert names_in(disk) == [log_file_name(0)]
    disk.remove("t-0/" + log_file_name(0))
    (segment,) = list_partition(disk, "t-0").segments
    assert segment.log_path == "t-0/" + log_file_name(0) + ".swap"
    assert segment.path_of(FileKind.OFFSET_INDEX) == "t-0/" + "0" * 20 + ".index.swap"


@pytest.mark.parametrize("suffix", ["", ".swap", ".cleaned", ".deleted"])
def test_snapshots_and_transaction_indexes_of_any_state_are_noticed(
    disk: FakeFileSystem, suffix: str
) -> None:
    disk.make_directory("t-0")
    for name in (log_file_name(0), "0" * 19 + "7.snapshot", "0" * 19 + "5.snapshot.deleted"):
        write(disk, "t-0/" + name, b"x")
    assert not list_partition(disk, "t-0").has_transaction_index
    write(disk, "t-0/" + "0" * 20 + ".txnindex" + suffix, b"")
    listed = list_partition(disk, "t-0")
    assert listed.has_transaction_index
    assert listed.snapshots == {7: "t-0/" + "0" * 19 + "7.snapshot"}


class RenamesWhileListed(FakeFileSystem):
    """A disk on which the first listing misses a file that is just being renamed."""

    def list(self, directory: str) -> list[str]:
        names = super().list(directory)
        name = log_file_name(0)
        if name in names:
            return names
        self.rename(f"{directory}/{name}.swap", f"{directory}/{name}")
        return [one for one in names if not one.startswith(name)]


def test_a_file_that_one_listing_missed_is_found(disk: FakeFileSystem) -> None:
    busy = RenamesWhileListed()
    busy.make_directory("t-0")
    write(busy, "t-0/" + log_file_name(0) + ".swap", b"x")
    write(busy, "t-0/" + log_file_name(9), b"x")
    assert names_in(busy) == [log_file_name(0), log_file_name(9)]


class RollsWhileListed(FakeFileSystem):
    """A disk that has one more segment with each listing."""

    def list(self, directory: str) -> list[str]:
        names = super().list(directory)
        write(self, f"{directory}/{log_file_name(len(names))}", b"")
        return names


def test_segments_that_come_faster_than_they_are_listed_are_left_for_the_next_listing() -> None:
    busy = RollsWhileListed()
    busy.make_directory("t-0")
    assert names_in(busy) == [log_file_name(0)]
    assert names_in(busy) == [log_file_name(number) for number in range(3)]
    assert list_partition(busy, "t-0").least_end_offset == 5


class NeverTheSame(FakeFileSystem):
    """A disk that has one segment less with each listing."""

    def list(self, directory: str) -> list[str]:
        names = super().list(directory)
        self.remove(f"{directory}/{names[0]}")
        return names


def test_a_directory_that_never_rests_is_given_up() -> None:
    busy = NeverTheSame()
    busy.make_directory("t-0")
    for number in range(2 * LISTING_ATTEMPTS):
        write(busy, "t-0/" + log_file_name(number), b"")
    with pytest.raises(CorruptionError, match="faster"):
        list_partition(busy, "t-0")
