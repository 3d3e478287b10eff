"""Which transactions were aborted, as a pass meets their batches."""

from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.compaction.transactions import CleanedTransactions, TransactionsSeen
from ottla.storage.index.transaction_index import AbortedTransaction

ABORTED = AbortedTransaction(producer_id=1, first_offset=10, last_offset=20, last_stable_offset=21)


def data(offset: int, producer_id: int = 1, *, is_transactional: bool = True) -> RecordBatch:
    builder = RecordBatchBuilder(
        offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    builder.append(b"k", b"v", 0)
    return RecordBatch(builder.build())


def marker(offset: int, producer_id: int = 1, *, is_commit: bool) -> RecordBatch:
    content = build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )
    return RecordBatch(bytes(content))


def test_data_of_an_aborted_transaction_goes_and_its_marker_stays() -> None:
    seen = CleanedTransactions([ABORTED])
    assert not seen.is_aborted(data(5))
    assert seen.is_aborted(data(12))
    assert not seen.is_aborted(data(13, producer_id=2))
    assert not seen.is_aborted(data(14, is_transactional=False))
    assert not seen.is_marker_obsolete(marker(20, is_commit=False))
    assert seen.retained == [ABORTED]


def test_a_marker_of_which_no_data_is_left_is_obsolete() -> None:
    seen = CleanedTransactions([ABORTED])
    assert seen.is_marker_obsolete(marker(20, is_commit=False))
    assert seen.is_marker_obsolete(marker(30, is_commit=True))
    assert seen.retained == []


def test_a_commits_marker_stays_while_its_data_does() -> None:
    seen = CleanedTransactions()
    assert not seen.is_aborted(data(5))
    assert not seen.is_marker_obsolete(marker(6, is_commit=True))
    assert seen.is_marker_obsolete(marker(7, is_commit=True)), "it ended with the first"


def test_what_ended_before_the_pass_begins_does_not_matter() -> None:
    seen = CleanedTransactions([ABORTED], from_offset=21)
    assert not seen.is_aborted(data(25))


def test_shares_say_together_what_one_pass_says() -> None:
    first = CleanedTransactions([ABORTED])
    first.is_aborted(data(12))
    first.is_aborted(data(13, producer_id=2))
    later = CleanedTransactions([ABORTED], seen=first.seen)
    assert not later.is_marker_obsolete(marker(19, producer_id=2, is_commit=True))
    assert first.seen.then(later.seen).ended_committed == {2}
    assert TransactionsSeen(aborted=frozenset({1})).then(
        TransactionsSeen(ended_aborted=frozenset({1}))
    ) == TransactionsSeen(ended_aborted=frozenset({1}))
