"""The image of what is committed is replayed in slices, and damage in it is named."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.cluster.quorum.committed_image import CommittedImage
from ottla.metadata.log_writing import record_batch, snapshot_parts
from ottla.metadata.records import TopicRecord
from ottla.quorum.messages import SnapshotId
from tests.simulation.quorum_disk import Entry, MemoryDirectory
from tests.support.brokers import id_of

SNAPSHOT = SnapshotId(100, 3)


def topic(number: int) -> tuple[TopicRecord, int]:
    return TopicRecord(name=f"t{number}", topic_id=id_of(number)), 0


def log_of(count: int, first: int = 0) -> MemoryDirectory:
    """A log of topics, with one in each batch."""
    log = MemoryDirectory()
    log.content.start = first
    for offset in range(first, first + count):
        log.append(record_batch([topic(offset)], offset, 3, 0))
    return log


def test_records_are_replayed_up_to_what_is_committed_and_no_further() -> None:
    committed = CommittedImage(log_of(5))
    assert committed.advance(3, lambda: False)
    image, changes, is_whole = committed.take()
    assert ([*image.topics], image.end_offset, image.epoch) == (["t0", "t1", "t2"], 3, 3)
    assert is_whole
    assert committed.advance(5, lambda: False)
    image, changes, is_whole = committed.take()
    assert [*image.topics] == ["t0", "t1", "t2", "t3", "t4"]
    assert not is_whole
    assert not changes.removed_topics


def test_a_long_log_is_replayed_in_slices() -> None:
    committed = CommittedImage(log_of(5))
    assert not committed.advance(5, lambda: True)
    assert not committed.advance(5, lambda: True)
    assert committed.advance(5, lambda: False)
    assert len(committed.take()[0].topics) == 5


def test_a_snapshot_begins_it_anew() -> None:
    log = log_of(2, first=100)
    log.complete[SNAPSHOT] = b"".join(snapshot_parts([topic(1), topic(2)], epoch=3, now_ms=0))
    committed = CommittedImage(log)
    committed.load(SNAPSHOT)
    assert not committed.advance(102, lambda: True)
    assert committed.end_offset == 0
    assert committed.advance(102, lambda: False)
    image, _, is_whole = committed.take()
    assert {*image.topics} == {"t1", "t2", "t100", "t101"}
    assert (image.end_offset, is_whole) == (102, True)


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_damage_is_named(damage: str) -> None:
    log = log_of(3)
    entry = log.content.entries[1]
    content = bytearray(entry.content)
    if damage == "cut":
        del content[-1:]
    elif damage == "flipped":
        content[-1] ^= 1
    else:
        content.clear()
    log.content.entries[1:] = [Entry(1, 3, 3, bytes(content))]
    committed = CommittedImage(log)
    with pytest.raises(CorruptionError, match="__cluster_metadata-0 from offset "):
        committed.advance(3, lambda: False)
