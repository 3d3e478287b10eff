"""Who follows a leader has an image of what is committed, however it is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid
from ottla.codec.schema import Message
from ottla.metadata.following import Entry, MetadataFollower
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import image_changes
from ottla.metadata.log_files import MetadataFile, read_log
from ottla.metadata.log_writing import record_batch, snapshot_parts
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnregisterControllerRecord,
)
from ottla.record.batch import iter_batches

SOURCE = "controller:9093"


def records_of(number: int) -> list[Message]:
    topic_id = Uuid(bytes(15) + bytes([number + 1]))
    partition = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0
    )
    return [TopicRecord(name=f"t{number}", topic_id=topic_id), partition]


def batch(offset: int, epoch: int, number: int) -> bytes:
    versioned = [(one, 0) for one in records_of(number)]
    return record_batch(versioned, offset, epoch, now_ms=1_000)


def log(count: int, epoch: int = 1) -> bytes:
    """A batch of two records for each topic."""
    return b"".join(batch(2 * one, epoch, one) for one in range(count))


@given(
    marks=st.lists(st.tuples(st.integers(0, 16), st.integers(0, 400)), max_size=12),
    count=st.integers(1, 8),
)
def test_fetches_of_any_size_and_any_high_watermarks_make_the_same_image(
    marks: list[tuple[int, int]], count: int
) -> None:
    """A fetch has batches from where the last one ended, the last of them perhaps cut."""
    content, follower = log(count), MetadataFollower()
    sizes = [one.size for one in iter_batches(content)]
    found: list[Entry] = []
    for high_watermark, cut in [*marks, (2 * count, 0)]:
        rest = content[sum(sizes[: follower.end_offset // 2]) :]
        first = sizes[follower.end_offset // 2] if rest else 0
        sent = rest[: max(first, len(rest) - cut)]
        found += follower.take_records(SOURCE, sent, min(high_watermark, 2 * count))
        assert follower.committed_offset <= follower.high_watermark
    assert [one.offset for one in found] == [*range(2 * count)]
    whole = read_log(None, [MetadataFile(path="l", content=content)], may_be_torn=False)
    assert follower.image() == whole.image()


def test_an_image_stays_as_it_was_while_the_log_goes_on() -> None:
    follower = MetadataFollower()
    follower.take_records(SOURCE, log(1), 2)
    image = follower.image()
    follower.take_records(SOURCE, batch(2, 1, 1), 4)
    assert (set(image.topics), set(follower.image().topics)) == ({"t0"}, {"t0", "t1"})


def test_what_another_leader_does_not_have_is_dropped() -> None:
    follower = MetadataFollower()
    assert len(follower.take_records(SOURCE, log(3), 2)) == 2
    follower.diverge(SOURCE, 1, 4)
    assert (follower.end_offset, follower.end_epoch) == (4, 1)
    found = follower.take_records(SOURCE, batch(4, 2, 7), 6)
    assert [one.epoch for one in found] == [1, 1, 2, 2]
    assert set(follower.image().topics) == {"t0", "t1", "t7"}


@pytest.mark.parametrize(("epoch", "end_offset"), [(1, 2), (0, 4), (1, 4), (1, 9)])
def test_a_leader_without_what_was_committed_or_that_says_nothing_is_refused(
    epoch: int, end_offset: int
) -> None:
    follower = MetadataFollower()
    follower.take_records(SOURCE, log(2), 4)
    with pytest.raises(CorruptionError, match=f"{SOURCE}.*ends at offset {end_offset} of epoch"):
        follower.diverge(SOURCE, epoch, end_offset)


def test_a_snapshot_begins_the_image_anew_and_never_goes_back() -> None:
    follower = MetadataFollower()
    follower.take_records(SOURCE, log(1), 2)
    content = b"".join(snapshot_parts([(x, 0) for x in records_of(5)], epoch=3, now_ms=1))
    follower.take_snapshot(SOURCE, 40, 3, content)
    assert (follower.committed_offset, follower.end_epoch) == (40, 3)
    assert set(follower.image().topics) == {"t5"}
    assert len(follower.take_records(SOURCE, batch(40, 3, 6), 42)) == 2
    with pytest.raises(CorruptionError, match="ends before offset 42, which was committed"):
        follower.take_snapshot(SOURCE, 40, 3, content)


def test_cordoned_directories_are_kept_and_a_controller_can_go() -> None:
    first, second = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")
    versioned: list[tuple[Message, int]] = [
        (FeatureLevelRecord(name="metadata.version", feature_level=33), 0),
        (RegisterBrokerRecord(broker_id=1, log_dirs=[first], cordoned_log_dirs=[first]), 4),
        (RegisterControllerRecord(controller_id=9), 0),
    ]
    follower = MetadataFollower()
    follower.take_records(SOURCE, record_batch(versioned, 0, 1, now_ms=1), 3)
    image = follower.image()
    assert (image.brokers[1].cordoned, set(image.controllers)) == ((first,), {9})
    written = {type(one): version for one, version in image_changes(MetadataImage(), image)}
    assert written[RegisterBrokerRecord] == 4
    changes: list[tuple[Message, int]] = [
        (BrokerRegistrationChangeRecord(broker_id=1, cordoned_log_dirs=[second]), 3),
        (UnregisterControllerRecord(controller_id=9), 0),
    ]
    follower.take_records(SOURCE, record_batch(changes, 3, 1, now_ms=1), 5)
    image = follower.image()
    assert (image.brokers[1].cordoned, set(image.controllers)) == ((second,), set())


def test_a_cut_snapshot_and_a_gap_are_named() -> None:
    content = b"".join(snapshot_parts([(x, 0) for x in records_of(5)], epoch=3, now_ms=1))
    with pytest.raises(CorruptionError, match="snapshot 40-3 of __cluster_metadata"):
        MetadataFollower().take_snapshot(SOURCE, 40, 3, content[:-5])
    with pytest.raises(CorruptionError, match="a batch begins at offset 2, not 0"):
        MetadataFollower().take_records(SOURCE, batch(2, 1, 0), 4)
    with pytest.raises(CorruptionError, match="no whole batch"):
        MetadataFollower().take_records(SOURCE, log(1)[:30], 4)
