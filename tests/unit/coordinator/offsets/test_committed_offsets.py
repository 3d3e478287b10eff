"""The store of committed offsets: replay, transactions, and what a fetch finds."""

from ottla.coordinator.offsets.committed_offsets import CommittedOffset, CommittedOffsets, Expiry
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue

PRODUCER = 7
WHERE = ("t", 0)


def key(group: str = "g", partition: int = 0) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic="t", partition=partition)


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp_ms=1000)


def found(offsets: CommittedOffsets, group: str = "g") -> int | None:
    committed = offsets.fetch(group, [WHERE])[WHERE].committed
    return committed.offset if committed else None


def test_what_was_never_committed_is_none() -> None:
    offsets = CommittedOffsets()
    assert found(offsets) is None
    assert offsets.fetch("g", None) == {}
    assert "g" not in offsets


def test_a_tombstone_forgets_an_offset_and_the_last_one_the_group() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), value(1), 0)
    offsets.replay(key(partition=1), value(2), 1)
    offsets.replay(key(), None, 2)
    assert list(offsets.of("g")) == [("t", 1)]
    offsets.replay(key(partition=1), None, 3)
    offsets.replay(key(partition=1), None, 4)
    assert list(offsets.group_ids()) == []


def test_offsets_of_a_transaction_wait_for_its_commit() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), value(1), 0)
    offsets.replay(key(), value(2), 1, producer_id=PRODUCER)
    assert found(offsets) == 1
    assert offsets.fetch("g", [WHERE])[WHERE].is_unstable
    offsets.end_transaction(PRODUCER, is_commit=True)
    assert found(offsets) == 2
    assert not offsets.fetch("g", [WHERE])[WHERE].is_unstable


def test_offsets_of_an_aborted_transaction_are_forgotten() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), value(2), 0, producer_id=PRODUCER)
    assert "g" in offsets
    offsets.end_transaction(PRODUCER, is_commit=False)
    assert found(offsets) is None
    assert "g" not in offsets


def test_a_commit_that_was_written_after_those_of_a_transaction_wins() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), value(2), 0, producer_id=PRODUCER)
    offsets.replay(key(), value(3), 1)
    offsets.end_transaction(PRODUCER, is_commit=True)
    assert found(offsets) == 3


def test_a_marker_of_a_producer_that_committed_nothing_here_changes_nothing() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), value(1), 0)
    offsets.end_transaction(PRODUCER, is_commit=True)
    assert found(offsets) == 1


def test_only_the_offsets_of_the_open_transaction_are_unstable() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(partition=1), value(2), 0, producer_id=PRODUCER)
    fetched = offsets.fetch("g", [("t", 0), ("t", 1)])
    assert [one.is_unstable for one in fetched.values()] == [False, True]


def test_an_offset_expires_by_the_first_rule_that_applies() -> None:
    kept = CommittedOffset(offset=1, commit_ms=1000, record_offset=0)
    chosen = CommittedOffset(offset=1, commit_ms=1000, expire_ms=1200, record_offset=0)
    for now_ms, base_ms, kept_is_over, chosen_is_over in (
        (1199, None, False, False),
        (1200, None, False, True),
        (1499, None, False, True),
        (1500, None, True, True),
        (1500, 1400, False, True),
        (1900, 1400, True, True),
    ):
        expiry = Expiry(now_ms=now_ms, retention_ms=500, base_ms=base_ms)
        assert expiry.has_expired(kept) is kept_is_over
        assert expiry.has_expired(chosen) is chosen_is_over
