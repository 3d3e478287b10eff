"""What is given up is lost, and goes on as an empty log after all offsets that were given."""

import pytest

from ottla.base.errors import UserError
from ottla.base.files import join
from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.giving_up import give_up
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import CHECKPOINT_HIGH_WATERMARK, PARTITION_METADATA
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.testing import FakeFileSystem, every_crash_point
from tests.support.logs import DIRECTORY, TOPIC_ID, fill, open_directory, values

PARTITION = join(DIRECTORY, "t-0")
KEY = TopicPartition("t", 0)


def lost() -> FakeFileSystem:
    """A directory whose checkpoints name t-0 with 6 offsets, and that holds t-1 alone."""
    disk = FakeFileSystem()
    directory = open_directory(disk)
    for index in range(2):
        fill(directory.create_log("t", index, TOPIC_ID), 3)
    directory.close()
    for name in disk.list(PARTITION):
        disk.remove(join(PARTITION, name))
    disk.remove_directory(PARTITION)
    disk.sync_directory(DIRECTORY)
    return disk


def test_the_empty_log_begins_where_the_lost_one_ended() -> None:
    disk = lost()
    assert give_up(disk, DIRECTORY, "t-0", TOPIC_ID) == 6
    assert read_topic_id(disk, join(PARTITION, PARTITION_METADATA)) == TOPIC_ID
    log = open_directory(disk).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (6, 6, [])


def test_the_highest_offset_counts_that_a_checkpoint_knows() -> None:
    disk = lost()
    OffsetCheckpoint(disk, join(DIRECTORY, CHECKPOINT_HIGH_WATERMARK)).write({KEY: 9})
    assert give_up(disk, DIRECTORY, "t-0", None) == 9
    assert read_topic_id(disk, join(PARTITION, PARTITION_METADATA)) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("t-1", "exists, so the partition is not lost; move it away first"),
        ("t-2", "does not name t-2, so it is not lost"),
        ("t", "t is not a partition; name one such as orders-0"),
        ("t-0.0123456789abcdef0123456789abcdef-delete", "is not a partition"),
    ],
)
def test_what_is_not_lost_is_refused_and_nothing_is_made(name: str, reason: str) -> None:
    disk = lost()
    before = disk.list(DIRECTORY)
    with pytest.raises(UserError, match=reason):
        give_up(disk, DIRECTORY, name, TOPIC_ID)
    assert disk.list(DIRECTORY) == before


def test_a_crash_leaves_it_lost_or_given_up() -> None:
    def workload(disk: FakeFileSystem, acknowledged: list[int]) -> None:
        acknowledged.append(give_up(disk, DIRECTORY, "t-0", TOPIC_ID))

    for point in every_crash_point(workload, make_file_system=lost, seeds=1):
        log = open_directory(point.file_system).logs.get(KEY)
        assert log is not None or not point.acknowledged
        if log is not None:
            assert log.log_end_offset == 6
