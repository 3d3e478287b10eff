"""What all index files do with their names and files, whatever entries they hold."""

from collections.abc import Callable

import pytest

from ottla.base.files import FileSystem
from ottla.storage.index.index_file import IndexFile
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.index.transaction_index import AbortedTransaction, TransactionIndex
from ottla.testing import FakeFileSystem

OLD, NEW = "d/old", "d/new"


def offset_index(files: FileSystem, path: str) -> IndexFile:
    index = OffsetIndex(files, path, base_offset=0)
    if index.entry_count == 0:
        index.append(1, 100)
    return index


def time_index(files: FileSystem, path: str) -> IndexFile:
    index = TimeIndex(files, path, base_offset=0)
    if index.entry_count == 0:
        index.append(1_000, 1)
    return index


def transaction_index(files: FileSystem, path: str) -> IndexFile:
    index = TransactionIndex(files, path, base_offset=0)
    if index.is_empty:
        index.append(
            AbortedTransaction(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=2)
        )
    return index


Make = Callable[[FileSystem, str], IndexFile]


@pytest.fixture(params=[offset_index, time_index, transaction_index])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def files() -> FakeFileSystem:
    files = FakeFileSystem()
    files.make_directory("d")
    return files


def count_of(index: IndexFile) -> int:
    count: int = index.entry_count  # type: ignore[attr-defined]
    return count


def test_a_file_that_is_open_is_renamed_with_its_entries(make: Make, files: FakeFileSystem) -> None:
    index = make(files, OLD)
    index.rename(NEW)
    assert (index.path, index.is_open, count_of(index)) == (NEW, True, 1)
    index.abandon()
    assert (index.is_open, count_of(index), files.list("d")) == (False, 1, ["new"])


def test_a_file_that_is_closed_is_renamed_too(make: Make, files: FakeFileSystem) -> None:
    index = make(files, OLD)
    index.abandon()
    index.rename(NEW)
    assert (files.list("d"), count_of(index)) == (["new"], 1)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex, TransactionIndex])
def test_a_file_that_was_never_made_has_nothing_to_rename_or_delete(
    kind: type[OffsetIndex], files: FakeFileSystem
) -> None:
    index = kind(files, OLD, base_offset=0)
    index.rename(NEW)
    assert (index.path, index.is_open, files.list("d")) == (NEW, False, [])
    index.delete()
    assert files.list("d") == []


def test_a_directory_that_was_renamed_is_followed(make: Make, files: FakeFileSystem) -> None:
    index = make(files, OLD)
    files.rename("d", "e")
    index.renamed("e/old")
    assert count_of(index) == 1
    index.delete()
    assert (files.list("e"), index.is_open) == ([], False)


def test_errors_name_the_file_by_its_present_name(make: Make, files: FakeFileSystem) -> None:
    index = make(files, OLD)
    index.rename(NEW)
    assert str(index._corruption(7, "odd")).startswith(f"{NEW} at byte 7")
