"""Which of a broker's directories has a partition."""

import pytest

from ottla.base.errors import UserError
from ottla.storage.reading.locating import locate, locate_partition
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory, open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.logs import TOPIC_ID, open_directory


def directories(**partitions: list[tuple[str, int]]) -> list[ReadOnlyLogDirectory]:
    disk = FakeFileSystem()
    for path, keys in partitions.items():
        opened = open_directory(disk, path=path)
        for topic, index in keys:
            opened.create_log(topic, index, TOPIC_ID)
        opened.close()
    return [open_for_reading(path, disk) for path in partitions]


def paths(found: dict[str, dict[int, ReadOnlyLogDirectory]]) -> dict[str, dict[int, str]]:
    return {topic: {at: one.path for at, one in held.items()} for topic, held in found.items()}


def test_each_partition_is_found_where_it_is() -> None:
    both = directories(d=[("t", 0), ("u", 0)], e=[("t", 1)])
    assert paths(locate(both)) == {"t": {0: "d", 1: "e"}, "u": {0: "d"}}
    found = locate_partition(both, "t", 1)
    assert found is not None
    assert found.path == "e"
    assert locate_partition(both, "t", 2) is None


def test_only_what_is_wanted_is_looked_for() -> None:
    both = directories(d=[("t", 0), ("u", 0)], e=[("t", 1)])
    wanted = locate(both, lambda topic, partition: (topic, partition) == ("t", 1))
    assert paths(wanted) == {"t": {1: "e"}}


def test_a_partition_in_two_directories_is_refused_by_its_name() -> None:
    both = directories(d=[("t", 0)], e=[("t", 0)])
    for ask in (lambda: locate(both), lambda: locate_partition(both, "t", 0)):
        with pytest.raises(UserError, match="t-0 is in d and in e; name directories of one broker"):
            ask()
