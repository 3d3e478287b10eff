"""Transaction indexes and producer snapshots against a replay of the log."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.record.batch import iter_batches
from ottla.storage.diagnosis.producer_checks import (
    PRODUCER_EXPIRATION_MS,
    Knowledge,
    ProducerReplay,
    SnapshotToCheck,
    is_compacted,
)
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.index.producer_snapshot import ProducerSnapshotEntry
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.snapshot_files import snapshot_entry
from ottla.testing import FakeFileSystem
from tests.support.compacting import End, Write, keeper_of, stored
from tests.support.logs import NOW_MS

ABORTED = AbortedTransaction(producer_id=1, first_offset=2, last_offset=4, last_stable_offset=5)


@pytest.fixture(scope="module")
def log() -> PartitionLog:
    """Producer 0 commits offsets 0 to 1, producer 1 aborts 2 to 3; producer 3 writes 5."""
    keeper = keeper_of(FakeFileSystem())
    keeper.carry_out(Write(((b"a", b"1"),), 0))
    keeper.carry_out(End(0, True))
    keeper.carry_out(Write(((b"b", b"1"), (b"c", b"1")), 1))
    keeper.carry_out(End(1, False))
    keeper.carry_out(Write(((b"d", b"1"),), 3))
    return keeper.log


def snapshot(log: PartitionLog, *changed: ProducerSnapshotEntry) -> SnapshotToCheck:
    entries = {key: snapshot_entry(one) for key, one in log.producers.entries.items()}
    entries.update({one.producer_id: one for one in changed})
    return SnapshotToCheck(
        path="snapshot", offset=6, entries=list(entries.values()), modified_ms=NOW_MS
    )


def replay(
    log: PartitionLog,
    newest: SnapshotToCheck | None = None,
    *,
    base_offset: int = 0,
    start: Sequence[ProducerSnapshotEntry] | None = None,
    without: int | None = None,
) -> ProducerReplay:
    found = ProducerReplay(base_offset, start, newest)
    for batch in iter_batches(stored(log)):
        if batch.base_offset >= base_offset and batch.base_offset != without:
            assert list(found.take(batch)) == []
    return found


def of_index(replayed: ProducerReplay, *entries: AbortedTransaction) -> list[Finding]:
    return list(replayed.check_transactions("txnindex", entries, end_offset=6, is_growing=False))


def test_a_snapshot_and_an_index_that_say_what_the_log_says_are_sound(log: PartitionLog) -> None:
    replayed = replay(log, snapshot(log))
    assert replayed.knowledge is Knowledge.ALL
    assert list(replayed.check_snapshot()) == []
    assert of_index(replayed, ABORTED) == []


def test_an_aborted_transaction_is_given_once(log: PartitionLog) -> None:
    replayed = replay(log)
    assert replayed.take_aborted() == [ABORTED]
    assert replayed.take_aborted() == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"last_sequence": 7}, "producer 3: last sequence 7 instead of 0"),
        ({"epoch": 4}, "producer 3: epoch 4 instead of 0"),
        ({"last_offset": 1}, "producer 3: last offset 1 instead of 5"),
        ({"transaction_first_offset": 5}, "producer 3: transaction first offset 5 instead of None"),
    ],
)
def test_each_field_of_a_snapshot_is_compared(
    log: PartitionLog, changes: dict[str, int], reason: str
) -> None:
    entry = replace(snapshot_entry(log.producers.entries[3]), **changes)  # type: ignore[arg-type]
    (found,) = replay(log, snapshot(log, entry)).check_snapshot()
    assert (found.kind, found.path) == (FindingKind.PRODUCER_SNAPSHOT, "snapshot")
    assert reason in found.reason


def test_a_producer_that_the_log_does_not_have_is_wrong_where_all_is_known(
    log: PartitionLog,
) -> None:
    entry = replace(snapshot_entry(log.producers.entries[3]), producer_id=99)
    (found,) = replay(log, snapshot(log, entry)).check_snapshot()
    assert "producer 99: the log has no batches of it" in found.reason


def test_only_a_producer_that_was_silent_for_long_may_be_missing(log: PartitionLog) -> None:
    newest = snapshot(log)
    lacking = replace(newest, entries=[one for one in newest.entries if one.producer_id != 3])
    (found,) = replay(log, lacking).check_snapshot()
    assert "producer 3, with last offset 5, is missing" in found.reason
    later = replace(lacking, modified_ms=NOW_MS + 2 * PRODUCER_EXPIRATION_MS)
    assert list(replay(log, later).check_snapshot()) == []


def test_a_snapshot_is_compared_when_the_replay_has_come_to_its_offset(log: PartitionLog) -> None:
    wrong = replace(snapshot_entry(log.producers.entries[1]), last_sequence=77)
    newest = replace(snapshot(log, wrong), offset=5)
    replayed = ProducerReplay(0, None, newest)
    found = [
        (batch.base_offset, one)
        for batch in iter_batches(stored(log))
        for one in replayed.take(batch)
    ]
    assert [at for at, _ in found] == [5]
    assert list(replayed.check_snapshot()) == []


@pytest.mark.parametrize(
    ("entries", "position", "reason"),
    [
        ((), 0, "is missing"),
        ((replace(ABORTED, first_offset=1),), 0, "contradicts the log"),
        ((ABORTED, replace(ABORTED, last_offset=5)), 34, "contradicts the log"),
        ((ABORTED, replace(ABORTED, producer_id=8, last_offset=60)), 34, "contradicts the log"),
    ],
)
def test_an_index_that_says_something_else_is_named(
    log: PartitionLog, entries: tuple[AbortedTransaction, ...], position: int, reason: str
) -> None:
    (found,) = of_index(replay(log), *entries)
    assert (found.kind, found.position) == (FindingKind.TRANSACTION_INDEX, position)
    assert reason in found.reason


def test_where_batches_were_compacted_only_contradictions_are_wrong(log: PartitionLog) -> None:
    stranger = replace(ABORTED, producer_id=8, last_offset=1)
    replayed = replay(log, without=0)
    assert replayed.knowledge is Knowledge.PART
    assert of_index(replayed, replace(ABORTED, first_offset=1), stranger) == []
    (found,) = of_index(replay(log, without=0), replace(ABORTED, first_offset=3))
    assert "contradicts the log" in found.reason


def test_after_damage_nothing_is_compared(log: PartitionLog) -> None:
    replayed = replay(
        log, snapshot(log, replace(snapshot_entry(log.producers.entries[3]), epoch=9))
    )
    replayed.skip()
    assert of_index(replayed) == []
    assert list(replayed.check_snapshot()) == []


def test_a_log_that_begins_later_is_known_in_part_unless_a_snapshot_stands_there(
    log: PartitionLog,
) -> None:
    assert ProducerReplay(2, None, None).knowledge is Knowledge.PART
    assert ProducerReplay(2, [], None).knowledge is Knowledge.ALL
    replayed = replay(log, base_offset=4, start=None)
    assert replayed.take_aborted() == []


def test_a_batch_after_a_gap_or_with_one_in_it_was_compacted(log: PartitionLog) -> None:
    first = next(iter_batches(stored(log)))
    assert not is_compacted(first, 0)
    assert is_compacted(first, -1)
