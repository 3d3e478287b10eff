"""What a directory must be before a broker writes into it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, join, read_file, remove_if_present, replace_file
from ottla.base.ids import Uuid
from ottla.storage.directory.directory_claim import Claim, UnusableDirectoryError, claim_directory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.filenames import COPIED_META_PROPERTIES, LOCK, META_PROPERTIES
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, SMALL

ID = Uuid(bytes(range(16)))
OPTIONS = OpenOptions(
    now_ms=NOW_MS,
    node_id=7,
    cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
    new_id=lambda: ID,
    random_below=lambda bound: 0,
    topic_config=lambda topic: SMALL,
)


@contextmanager
def claimed(disk: FileSystem) -> Iterator[Claim]:
    claim = claim_directory(disk, DIRECTORY, OPTIONS)
    try:
        yield claim
    finally:
        claim.lock.release()


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


def put(disk: FileSystem, name: str, content: bytes = b"") -> None:
    if disk.status(DIRECTORY) is None:
        disk.make_directory(DIRECTORY)
    replace_file(disk, join(DIRECTORY, name), content)


def test_a_new_directory_gets_an_identity_which_it_keeps(disk: FakeFileSystem) -> None:
    with claimed(disk) as claim:
        made = claim.properties
    assert (made.node_id, made.cluster_id) == (7, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert made.directory_id == ID
    with claimed(disk) as claim:
        assert claim.properties == made


def test_a_directory_is_claimed_once_at_a_time(disk: FakeFileSystem) -> None:
    with claimed(disk), pytest.raises(UserError, match="name another directory"):
        claim_directory(disk, DIRECTORY, OPTIONS)
    with claimed(disk):
        pass


def test_files_of_somebody_else_are_named_and_nothing_is_written(disk: FakeFileSystem) -> None:
    put(disk, "holiday.jpg")
    with pytest.raises(UserError, match=r"no Kafka log \(holiday.jpg\)"):
        claim_directory(disk, DIRECTORY, OPTIONS)
    assert disk.list(DIRECTORY) == ["holiday.jpg"]


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "remote-log-index-cache",
        "t-0",
        "recovery-point-offset-checkpoint",
        "a.tmp",
    ],
)
def test_what_a_log_directory_may_have_without_its_properties_is_no_stranger(
    disk: FakeFileSystem, name: str
) -> None:
    put(disk, name)
    with claimed(disk) as claim:
        assert claim.properties.node_id == 7


def test_a_file_is_no_directory(disk: FakeFileSystem) -> None:
    replace_file(disk, DIRECTORY, b"")
    with pytest.raises(UserError, match="data is a file; name a directory"):
        claim_directory(disk, DIRECTORY, OPTIONS)


def test_lost_properties_are_not_made_again_where_their_copy_is(disk: FakeFileSystem) -> None:
    with claimed(disk):
        pass
    copy = read_file(disk, join(DIRECTORY, COPIED_META_PROPERTIES))
    remove_if_present(disk, join(DIRECTORY, META_PROPERTIES))
    with pytest.raises(UnusableDirectoryError, match=COPIED_META_PROPERTIES):
        claim_directory(disk, DIRECTORY, OPTIONS)
    assert read_file(disk, join(DIRECTORY, COPIED_META_PROPERTIES)) == copy


def test_a_claim_that_fails_leaves_the_directory_to_others(disk: FakeFileSystem) -> None:
    put(disk, META_PROPERTIES, b"version=none\n")
    with pytest.raises(UnusableDirectoryError, match="restore the file or name another directory"):
        claim_directory(disk, DIRECTORY, OPTIONS)
    lock = disk.lock(join(DIRECTORY, LOCK))
    assert lock is not None
    lock.release()
