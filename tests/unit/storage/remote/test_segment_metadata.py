"""What an upload says of its leader epochs, and which state may follow which."""

from ottla.storage.remote.segment_metadata import PartitionDeleteState, SegmentState
from tests.support.remote_segments import upload


def test_an_epoch_ends_where_the_next_begins_and_the_last_with_the_segment() -> None:
    segment = upload(1, 100, 199, {3: 100, 5: 140, 6: 199})
    assert list(segment.epoch_ranges()) == [(3, 100, 139), (5, 140, 198), (6, 199, 199)]


def test_an_epoch_without_records_is_left_out() -> None:
    assert list(upload(1, 0, 9, {0: 0, 1: 5, 2: 5}).epoch_ranges()) == [(0, 0, 4), (2, 5, 9)]
    assert list(upload(1, 0, 9, {0: 0, 1: 10}).epoch_ranges()) == [(0, 0, 9)]


def test_ranges_end_with_the_segment_whatever_the_epochs_say() -> None:
    assert list(upload(1, 5, 9, {0: 0, 1: 3, 2: 7, 3: 12}).epoch_ranges()) == [(1, 5, 6), (2, 7, 9)]


def test_a_state_is_followed_by_itself_or_by_the_states_that_kafka_allows() -> None:
    allowed = {
        (one.value, other.value)
        for one in SegmentState
        for other in SegmentState
        if one.may_become(other)
    }
    assert allowed == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3)}


def test_the_states_of_a_partitions_deletion_follow_each_other() -> None:
    allowed = {
        (one.value, other.value)
        for one in PartitionDeleteState
        for other in PartitionDeleteState
        if one.may_become(other)
    }
    assert allowed == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)}


def test_a_partition_has_the_name_of_its_folder() -> None:
    assert str(upload(1, 0, 9).partition) == "t-0"
