"""What a log remembers of its producers, and what it lets them append."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.config.setting import INT32_MAX
from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.producer_state import (
    BATCHES_TO_RETAIN,
    AppendOrigin,
    ProducerEntry,
    ProducerState,
    take_batch,
)

CLIENT = AppendOrigin.CLIENT


def data(
    offset: int, sequence: int, count: int = 1, *, epoch: int = 0, transaction: bool = False
) -> RecordBatch:
    builder = RecordBatchBuilder(
        offset,
        producer_id=1,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transaction,
    )
    for _ in range(count):
        builder.append(b"k", b"v", 1000)
    return RecordBatch(builder.build())


def marker(offset: int, *, is_commit: bool, coordinator_epoch: int = 0) -> RecordBatch:
    decision = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=coordinator_epoch)
    return RecordBatch(
        build_end_transaction_marker(
            decision, producer_id=1, producer_epoch=0, timestamp_ms=0, base_offset=offset
        )
    )


@pytest.fixture
def state() -> ProducerState:
    """After seven batches of one record each."""
    made = ProducerState()
    for number in range(7):
        assert made.admit(data(number, number), CLIENT) is None
        made.take_data(data(number, number))
    return made


def refusal(state: ProducerState, batch: RecordBatch) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        state.admit(batch, CLIENT)
    return caught.value.code


def test_a_retry_of_the_last_five_is_answered_with_its_offsets(state: ProducerState) -> None:
    for number in range(7 - BATCHES_TO_RETAIN, 7):
        found = state.admit(data(99, number), CLIENT)
        assert found is not None
        assert (found.first_offset, found.last_offset) == (number, number)


def test_gaps_and_what_is_older_than_five_are_out_of_order(state: ProducerState) -> None:
    for sequence in (8, 1, 100):
        assert refusal(state, data(99, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_zero_and_fences_the_old(state: ProducerState) -> None:
    assert refusal(state, data(99, 7, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.admit(data(7, 0, epoch=1), CLIENT) is None
    state.take_data(data(7, 0, epoch=1))
    assert refusal(state, data(99, 7)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert list(state.entries[1].batches) == [(0, 7, 0, 1000)]


def test_sequence_numbers_wrap_around() -> None:
    state = ProducerState()
    state.take_data(data(0, INT32_MAX - 1, count=4))
    assert state.entries[1].last_sequence == 1
    assert state.admit(data(4, 2), CLIENT) is None
    found = state.admit(data(9, INT32_MAX - 1, count=4), CLIENT)
    assert found is not None
    assert found.first_sequence == INT32_MAX - 1


def test_a_follower_takes_what_its_leader_took(state: ProducerState) -> None:
    assert state.admit(data(99, 50), AppendOrigin.REPLICATION) is None


def test_a_partial_entry_is_completed_out_of_the_log_once() -> None:
    state = ProducerState()
    state.take_data(data(5, 5))
    state.entries[1].is_partial = True
    asked: list[int] = []

    def recall(entry: ProducerEntry) -> None:
        asked.append(entry.producer_id)
        entry.batches.appendleft((4, 4, 0, 1000))

    found = state.admit(data(99, 4), CLIENT, recall)
    assert found is not None
    assert found.last_offset == 4
    with pytest.raises(ApiError):
        state.admit(data(99, 3), CLIENT, recall)
    assert asked == [1]


def test_a_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    state = ProducerState()
    state.take_data(data(10, 0, transaction=True))
    assert state.first_unstable_offset == 10
    assert refusal(state, data(11, 1)) is ErrorCode.INVALID_TXN_STATE
    completed = take_batch(state, marker(12, is_commit=False))
    assert completed is not None
    assert completed.is_aborted
    assert (completed.first_offset, completed.last_offset) == (10, 12)
    assert state.last_stable_offset_after(completed) == 13
    state.complete(completed)
    assert state.first_unstable_offset == 10
    state.high_watermark_moved(13)
    assert state.first_unstable_offset is None


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused() -> None:
    state = ProducerState()
    take_batch(state, marker(0, is_commit=True, coordinator_epoch=4))
    state.check_marker(1, EndTransactionMarker(is_commit=True, coordinator_epoch=4))
    with pytest.raises(ApiError, match="Coordinator epoch 3 is older than the latest, 4"):
        state.check_marker(1, EndTransactionMarker(is_commit=True, coordinator_epoch=3))


def test_a_producer_is_forgotten_after_its_time_unless_it_is_in_a_transaction(
    state: ProducerState,
) -> None:
    open_one = ProducerEntry(producer_id=2, epoch=0, transaction_first_offset=3)
    state.load([*tuple(state.entries.values()), open_one], 7)
    for monotonic_ms, left in ((0.0, {1, 2}), (99.0, {1, 2}), (100.0, {2})):
        state.expire(Timestamps(now_ms=5000, monotonic_ms=monotonic_ms), 100)
        assert set(state.entries) == left
    assert state.first_unstable_offset == 3
