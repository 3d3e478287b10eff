"""Which partitions the checkpoints of a log directory name."""

from collections.abc import Mapping

from ottla.base.errors import CorruptionError
from ottla.base.files import join, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
)
from ottla.storage.files.named_partitions import (
    NamedPartitions,
    find_named_partitions,
    read_named_partitions,
)
from ottla.testing import FakeFileSystem

A, B, C = (TopicPartition(name, 0) for name in "abc")
Entries = Mapping[TopicPartition, int] | None


def found(
    points: Entries | CorruptionError, marks: Entries = None, starts: Entries = None
) -> NamedPartitions:
    by_name = {
        CHECKPOINT_RECOVERY_POINT: points,
        CHECKPOINT_HIGH_WATERMARK: marks,
        CHECKPOINT_LOG_START: starts,
    }

    def find(name: str) -> Entries:
        entries = by_name[name]
        if isinstance(entries, CorruptionError):
            raise entries
        return entries

    return find_named_partitions(find)


def test_the_recovery_point_counts_before_the_other_files() -> None:
    named = found({A: 5}, {A: 9, B: 3}, {C: 1})
    assert named.partitions() == {A, B, C}
    assert [named.offset_of(one) for one in (A, B, C)] == [5, 3, 1]
    assert named.file_of(A) == CHECKPOINT_RECOVERY_POINT
    assert named.file_of(B) == CHECKPOINT_HIGH_WATERMARK
    assert named.is_complete


def test_a_partition_that_no_file_names_has_neither_offset_nor_file() -> None:
    named = found({A: 5})
    assert named.offset_of(B) is None
    assert named.file_of(B) is None


def test_recovery_points_that_are_whole_and_empty_leave_the_others_unasked() -> None:
    """Kafka leaves the high watermarks as they are when the last log of a directory is deleted."""
    assert found({}, {A: 9}).partitions() == set()
    assert found(None, {A: 9}).partitions() == {A}


def test_damaged_recovery_points_are_not_all_that_there_may_be() -> None:
    named = found(CorruptionError("points", 0, "no"), {A: 9})
    assert named.partitions() == {A}
    assert not named.is_complete


def test_what_lies_in_a_directory_is_read() -> None:
    disk = FakeFileSystem()
    disk.make_directory("data")
    OffsetCheckpoint(disk, join("data", CHECKPOINT_RECOVERY_POINT)).write({A: 5})
    replace_file(disk, join("data", CHECKPOINT_HIGH_WATERMARK), b"nonsense")
    named = read_named_partitions(disk, "data")
    assert named.partitions() == {A}
    assert named.is_complete
