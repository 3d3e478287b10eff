"""The log directories of one broker together."""

import errno

import pytest

from ottla.base.errors import StorageError
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.testing import FakeFileSystem
from tests.support.logs import TOPIC_ID, open_directory


@pytest.fixture
def three() -> list[LogDirectory]:
    disk = FakeFileSystem()
    opened = [open_directory(disk, path=path) for path in ("a", "b", "c")]
    for partition in range(2):
        opened[0].create_log("t", partition, TOPIC_ID)
    opened[1].create_log("t", 2, TOPIC_ID)
    return opened


def together(directories: list[LogDirectory], *cordoned: str) -> LogDirectories:
    return LogDirectories(directories, lambda path: path in cordoned)


def fail(directory: LogDirectory) -> None:
    directory.health.fail(OSError(errno.EIO, "broken"))


def test_a_partition_goes_where_the_fewest_are(three: list[LogDirectory]) -> None:
    assert together(three).emptiest() is three[2]
    fail(three[2])
    assert together(three).emptiest() is three[1]


def test_a_cordoned_directory_gets_none_while_another_is_there(three: list[LogDirectory]) -> None:
    assert together(three, "c").emptiest() is three[1]
    assert not together(three, "b", "c").are_cordoned
    everywhere = together(three, "a", "b", "c")
    assert everywhere.are_cordoned
    assert everywhere.emptiest() is three[2]


def test_only_with_all_online_it_is_known_what_they_hold(three: list[LogDirectory]) -> None:
    directories = together(three)
    assert directories.is_complete
    fail(three[1])
    assert not directories.is_complete
    assert list(directories.online) == [three[0], three[2]]
    assert list(directories) == three


def test_without_any_directory_nothing_is_placed(three: list[LogDirectory]) -> None:
    directories = together(three)
    for one in three:
        fail(one)
    assert directories.is_offline
    assert not directories.are_cordoned
    with pytest.raises(StorageError, match="every log directory is offline"):
        directories.emptiest()
