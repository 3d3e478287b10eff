"""Aborted transactions of a segment."""

from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, OsFileSystem, read_file
from ottla.storage.index import transaction_index
from ottla.storage.index.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    index_text,
    parse_entries,
)
from ottla.testing import FakeFileSystem

PATH = "00000000000000000100.txnindex"
BASE = 100


def aborted(first: int, last: int, stable: int, producer_id: int = 7) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )


def index_on(disk: FileSystem, path: str = PATH, *, writable: bool = True) -> TransactionIndex:
    return TransactionIndex(disk, path, base_offset=BASE, writable=writable)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def three() -> list[AbortedTransaction]:
    return [aborted(90, 110, 105), aborted(105, 120, 121), aborted(130, 139, 140)]


@pytest.fixture
def index(disk: FakeFileSystem, three: list[AbortedTransaction]) -> TransactionIndex:
    index = index_on(disk)
    for transaction in three:
        index.append(transaction)
    return index


def test_the_file_is_made_by_the_first_append(disk: FakeFileSystem) -> None:
    index = index_on(disk)
    index.sync()
    assert index.is_empty
    assert index.collect(0, 1000) == ([], False)
    index.truncate_to(0)
    index.truncate_to(5)
    index.sanity_check()
    assert disk.status(PATH) is None
    index.append(aborted(100, 101, 102))
    assert not index.is_empty
    assert disk.status(PATH) is not None


def test_an_entry_has_34_bytes(disk: FakeFileSystem) -> None:
    index_on(disk).append(aborted(1, 101, 3, producer_id=4))
    assert read_file(disk, PATH) == bytes.fromhex(
        "00000000000000000004000000000000000100000000000000650000000000000003"
    )


def test_entries_are_found_again(
    disk: FakeFileSystem, index: TransactionIndex, three: list[AbortedTransaction]
) -> None:
    index.close()
    assert index.entries == three
    assert index_on(disk).entries == three
    assert index_on(disk, writable=False).entries == three


def test_last_offsets_must_ascend(index: TransactionIndex) -> None:
    index.close()
    with pytest.raises(AssertionError, match="ascend"):
        index.append(aborted(135, 139, 140))


@pytest.mark.parametrize(
    ("fetch", "upper", "found", "is_all"),
    [
        (0, 1000, [0, 1, 2], False),
        (100, 121, [0, 1], True),
        (100, 105, [0], True),
        (110, 111, [0, 1], True),
        (111, 122, [1], True),
        (111, 131, [1, 2], True),
        (121, 130, [], True),
        (139, 140, [2], True),
        (139, 141, [2], False),
        (140, 150, [], False),
    ],
)
def test_what_overlaps_with_a_fetch_is_collected(
    index: TransactionIndex,
    three: list[AbortedTransaction],
    fetch: int,
    upper: int,
    found: list[int],
    is_all: bool,
) -> None:
    assert index.collect(fetch, upper) == ([three[number] for number in found], is_all)


@pytest.mark.parametrize(
    ("offset", "left"), [(140, 3), (139, 2), (121, 2), (120, 1), (110, 0), (0, 0)]
)
def test_truncating_removes_what_ends_at_or_after_the_offset(
    disk: FakeFileSystem,
    index: TransactionIndex,
    three: list[AbortedTransaction],
    offset: int,
    left: int,
) -> None:
    index.truncate_to(offset)
    assert index.entries == three[:left]
    assert len(read_file(disk, PATH)) == 34 * left
    index.append(aborted(300, 301, 302))
    assert index.entry_count == left + 1


def test_truncating_everything_keeps_the_file(
    disk: FakeFileSystem, index: TransactionIndex
) -> None:
    index.truncate_to(0)
    assert index.is_empty
    assert read_file(disk, PATH) == b""
    index.append(aborted(90, 100, 101))
    assert index.entry_count == 1


def test_it_follows_its_file(disk: FakeFileSystem, index: TransactionIndex) -> None:
    index.rename(PATH + ".swap")
    assert disk.status(PATH) is None
    index.append(aborted(200, 201, 202))
    disk.rename(PATH + ".swap", PATH)
    index.renamed(PATH)
    index.close()
    assert index.entry_count == 4
    index.delete()
    assert disk.status(PATH) is None
    assert index.is_empty


def test_one_that_has_no_file_can_be_renamed_and_deleted(disk: FakeFileSystem) -> None:
    index = index_on(disk)
    index.rename("other")
    index.delete()
    assert index.path == "other"


def test_one_that_has_no_file_is_looked_for_once(disk: FakeFileSystem) -> None:
    index = index_on(disk, "other.txnindex")
    assert index.collect(0, 10) == ([], False)
    index.let_go()
    assert index.is_known_absent
    index.append(aborted(0, 9, 10))
    assert not index.is_known_absent


def test_a_cut_entry_fails_the_sanity_check_and_is_overwritten(
    disk: FakeFileSystem, index: TransactionIndex, three: list[AbortedTransaction]
) -> None:
    index.close()
    disk.open(PATH, writable=True).truncate(34 * 3 - 1)
    with pytest.raises(CorruptionError) as error:
        index.sanity_check()
    assert (error.value.path, error.value.position) == (PATH, 68)
    index.append(three[2])
    index.sanity_check()
    assert index.entries == three


@pytest.mark.parametrize(
    ("content", "position"),
    [
        (bytes.fromhex("0001") + bytes(32), 0),
        (bytes(34), 0),
        (bytes.fromhex("0000" + "00" * 8 + "00" * 7 + "66" + "00" * 7 + "65" + "00" * 8), 0),
        (bytes.fromhex("0000" + "00" * 16 + "00" * 7 + "64" + "00" * 8) * 2, 34),
    ],
)
def test_impossible_entries_fail_the_sanity_check(
    disk: FakeFileSystem, content: bytes, position: int
) -> None:
    disk.open(PATH, create=True).pwrite(content, 0)
    with pytest.raises(CorruptionError) as error:
        index_on(disk).sanity_check()
    assert error.value.position == position


def test_a_reader_stops_where_somebody_cut_the_file(
    tmp_path: Path, three: list[AbortedTransaction]
) -> None:
    path = str(tmp_path / PATH)
    writer = index_on(OsFileSystem(), path)
    for transaction in three:
        writer.append(transaction)
    reader = index_on(OsFileSystem(), path, writable=False)
    assert reader.entry_count == 3
    writer.truncate_to(120)
    assert reader.entries == three[:1]
    reader.close()
    writer.close()


@st.composite
def histories(draw: st.DrawFn) -> list[AbortedTransaction]:
    last_offsets = sorted(draw(st.sets(st.integers(BASE, BASE + 60), max_size=25)))
    return [
        aborted(draw(st.integers(0, last)), last, draw(st.integers(0, last + 1)))
        for last in last_offsets
    ]


@pytest.mark.slow
@given(histories(), st.integers(0, 200), st.integers(0, 60), st.integers(1, 5))
def test_collecting_agrees_with_kafkas_scan(
    history: list[AbortedTransaction], fetch: int, size: int, entries_per_read: int
) -> None:
    upper = fetch + size + 1
    found, is_all = [], False
    for transaction in history:
        if transaction.last_offset >= fetch and transaction.first_offset < upper:
            found.append(transaction)
        if transaction.last_stable_offset >= upper:
            is_all = True
            break
    index = index_on(FakeFileSystem())
    for transaction in history:
        index.append(transaction)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_index, "ENTRIES_PER_READ", entries_per_read)
        assert index.collect(fetch, upper) == (found, is_all)


USES: list[Callable[[TransactionIndex], object]] = [
    TransactionIndex.sanity_check,
    lambda index: index.collect(120, 130),
    lambda index: index.entries,
]


@given(st.sampled_from(USES), st.sampled_from([b"", bytes(2)]), st.binary(max_size=150))
def test_any_bytes_are_transactions_or_corruption(
    use: Callable[[TransactionIndex], object], prefix: bytes, content: bytes
) -> None:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(prefix + content, 0)
    try:
        use(index_on(disk))
    except CorruptionError as error:
        assert error.path == PATH  # noqa: PT017


def test_the_text_of_an_index_is_in_the_order_of_its_ends_each_of_them_once() -> None:
    content = index_text([aborted(4, 9, 10), aborted(0, 5, 6), aborted(3, 9, 10)])
    assert list(parse_entries(PATH, content)) == [aborted(0, 5, 6), aborted(3, 9, 10)]
