"""Marks of files: made once, after the file, and what is missing in spite of one is lost."""

import pytest

from ottla.base.errors import RefusalError
from ottla.base.files import replace_file
from ottla.storage.files.filenames import MARKS
from ottla.storage.files.written_marks import (
    check_not_lost,
    is_lost,
    mark_all_written,
    mark_written,
)
from ottla.testing import FakeFileSystem
from tests.support.brokers import disk

NAME, MARK = "ottla-cluster.json", "ottla-cluster.written"


def marked() -> FakeFileSystem:
    files = disk("/d")
    replace_file(files, f"/d/{NAME}", b"{}")
    mark_written(files, "/d", NAME)
    return files


def test_a_file_is_lost_that_is_gone_in_spite_of_its_mark() -> None:
    files = marked()
    check_not_lost(files, "/d", NAME)
    files.remove(f"/d/{NAME}")
    assert is_lost(files, "/d", NAME)
    with pytest.raises(RefusalError, match=f"/d/{NAME} is missing, though {MARK} says .* restore"):
        check_not_lost(files, "/d", NAME)
    files.remove(f"/d/{MARK}")
    check_not_lost(files, "/d", NAME)


def test_a_file_that_never_was_is_not_missed() -> None:
    for name in MARKS:
        check_not_lost(disk("/d"), "/d", name)


def test_a_mark_is_made_once() -> None:
    files = marked()
    before = files.status(f"/d/{MARK}")
    mark_written(files, "/d", NAME)
    assert files.status(f"/d/{MARK}") == before


def test_the_files_of_an_older_version_get_their_marks_and_no_other_does() -> None:
    files = disk("/d")
    replace_file(files, f"/d/{NAME}", b"{}")
    mark_all_written(files, "/d")
    assert sorted(files.list("/d")) == [NAME, MARK]
