"""Segments that retention and compaction take away between their listing and their opening."""

from collections.abc import Callable
from typing import NoReturn

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import join
from ottla.storage.files.filenames import log_file_name
from ottla.storage.reading import listed_segments
from ottla.storage.reading.listed_segments import Cursor, ListedSegments
from ottla.storage.segment.partition_files import list_partition
from ottla.testing import FakeFileSystem

PARTITION = "/t-0"
BASES = [100, 110, 120]


class MissingError(Exception):
    """What a caller raises for an offset that has gone."""


def missing(offset: int) -> NoReturn:
    raise MissingError(offset)


def write(disk: FakeFileSystem, base_offset: int) -> None:
    file = disk.open(path_of(base_offset), create=True)
    file.pwrite(b"x", 0)
    file.close()


def path_of(base_offset: int) -> str:
    return join(PARTITION, log_file_name(base_offset))


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory(PARTITION)
    for base_offset in BASES:
        write(disk, base_offset)
    return disk


@pytest.fixture
def listed(disk: FakeFileSystem) -> ListedSegments:
    return ListedSegments(disk, PARTITION, list_partition(disk, PARTITION))


def opened(
    listed: ListedSegments,
    from_offset: int,
    until_offset: int = 1000,
    between: Callable[[Cursor], None] = lambda _: None,
) -> list[int]:
    cursor = Cursor(from_offset)
    found = []
    for reader in listed.readers(cursor, until_offset, missing):
        found.append(reader.base_offset)
        between(cursor)
    return found


def bases(listed: ListedSegments) -> list[int]:
    return [one.base_offset for one in listed.values]


@pytest.mark.parametrize(
    ("offset", "first"), [(0, 0), (100, 0), (109, 0), (110, 1), (125, 2), (900, 2)]
)
def test_what_lies_from_an_offset_on_begins_with_the_segment_that_holds_it(
    offset: int, first: int, listed: ListedSegments
) -> None:
    assert [one.base_offset for one in listed.from_offset(offset)] == BASES[first:]


def test_a_log_without_segments_begins_and_ends_at_nothing(disk: FakeFileSystem) -> None:
    disk.make_directory("/empty-0")
    listed = ListedSegments(disk, "/empty-0", list_partition(disk, "/empty-0"))
    assert (listed.first_offset, listed.end_of_files) == (0, ("/empty-0", 0))
    assert listed.open_last() is None
    assert opened(listed, 0) == []


def test_another_listing_says_whether_segments_have_gone_and_leaves_out_new_ones(
    disk: FakeFileSystem, listed: ListedSegments
) -> None:
    write(disk, 130)
    assert not listed.list_again()
    assert bases(listed) == BASES
    listed.list_all()
    assert bases(listed) == [*BASES, 130]
    disk.remove(path_of(100))
    assert listed.list_again()
    assert listed.first_offset == 110


def test_a_partition_that_was_removed_is_named(disk: FakeFileSystem) -> None:
    listed = ListedSegments(disk, PARTITION, list_partition(disk, PARTITION))
    for base_offset in BASES:
        disk.remove(path_of(base_offset))
    disk.remove_directory(PARTITION)
    with pytest.raises(UserError, match=f"{PARTITION} was removed"):
        listed.list_again()


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "expected"),
    [(100, 1000, BASES), (115, 1000, [110, 120]), (100, 110, [100]), (100, 111, [100, 110])],
)
def test_segments_are_opened_from_one_offset_until_another(
    from_offset: int, until_offset: int, expected: list[int], listed: ListedSegments
) -> None:
    assert opened(listed, from_offset, until_offset) == expected


def test_an_offset_before_the_first_segment_is_the_callers_matter(listed: ListedSegments) -> None:
    with pytest.raises(MissingError, match="99"):
        opened(listed, 99)


def test_a_segment_that_retention_took_since_the_listing_is_missing(
    disk: FakeFileSystem, listed: ListedSegments
) -> None:
    disk.remove(path_of(100))
    with pytest.raises(MissingError, match="105"):
        opened(listed, 105)
    assert bases(listed) == [110, 120]


def test_a_segment_that_compaction_joined_with_the_one_before_is_found_there(
    disk: FakeFileSystem, listed: ListedSegments
) -> None:
    disk.remove(path_of(110))
    assert opened(listed, 115) == [100, 120]


def test_an_offset_whose_segment_was_replaced_while_it_was_read_is_looked_for_again(
    listed: ListedSegments,
) -> None:
    replaced: list[int] = []

    def once(cursor: Cursor) -> None:
        if not replaced:
            replaced.append(cursor.offset)
            cursor.is_replaced = True

    assert opened(listed, 115, between=once) == [110, 110, 120]


def test_the_last_segment_is_the_newest_once_retention_took_the_one_before(
    disk: FakeFileSystem, listed: ListedSegments
) -> None:
    disk.remove(path_of(120))
    last = listed.open_last()
    assert last is not None
    assert last.base_offset == 110
    last.close()


def test_files_that_never_keep_still_are_an_error(
    listed: ListedSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> NoReturn:
        raise FileNotFoundError

    monkeypatch.setattr(listed_segments, "SegmentReader", gone)
    with pytest.raises(CorruptionError, match="change faster than they can be opened"):
        opened(listed, 100)
    with pytest.raises(CorruptionError, match="change faster than they can be opened"):
        listed.open_last()
