"""Fetches after one another, from brokers that do what sound ones seldom do."""

import time
from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.client.bulk.fetching import TruncatedError, committed_runs, fetches
from ottla.client.bulk.reading import READ_COMMITTED, FetchFrom
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.protocol.messages.fetch import PartitionData
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from tests.support.patience import PATIENCE_S
from tests.support.scripted_broker import ScriptedBroker, records_of, scripted

COUNT = 10
"""Records in each batch of `log`, of which one comes with each answer."""


def batch(base_offset: int, *, producer_id: int = -1, leader_epoch: int = -1) -> bytes:
    builder = RecordBatchBuilder(
        base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    for number in range(COUNT):
        builder.append(None, b"%d" % number, 1)
    return builder.build()


def abort(base_offset: int, producer_id: int) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1,
        base_offset=base_offset,
    )


def log(offset: int) -> PartitionData:
    return records_of(batch(offset // COUNT * COUNT))


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted(log) as broker:
        yield broker


def opened(broker: ScriptedBroker, *, timeout_s: float = 10) -> Cluster:
    settings = ClientSettings(
        request_timeout_s=timeout_s, first_pause_s=0.001, last_pause_s=0.01, patience_s=0.05
    )
    return Cluster([("127.0.0.1", broker.port)], settings, sleep=time.sleep, topics=())


def wanted(offset: int = 0) -> FetchFrom:
    return FetchFrom(
        topic="t", partition=0, offset=offset, max_size=1000, isolation_level=READ_COMMITTED
    )


def next_offsets(broker: ScriptedBroker, until: int = 30) -> list[int]:
    with opened(broker) as cluster:
        return [one.next_offset for one in fetches(cluster, wanted(), until)]


def test_the_next_answer_is_asked_for_before_one_is_worked_on(broker: ScriptedBroker) -> None:
    with opened(broker) as cluster:
        answers = fetches(cluster, wanted(3), 25)
        assert next(answers).next_offset == 10
        assert broker.wait_until_asked(10)
        assert [one.next_offset for one in answers] == [20, 30]
        assert broker.asked == [3, 10, 20]


def test_a_leader_that_has_moved_is_followed(broker: ScriptedBroker) -> None:
    def moving(offset: int) -> PartitionData:
        if offset < 20:
            return log(offset)
        first.leader = broker
        return records_of(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with scripted(moving) as first:
        assert next_offsets(first) == [10, 20, 30]
    assert broker.asked == [20]


def test_a_connection_that_breaks_is_opened_again(broker: ScriptedBroker) -> None:
    cuts = [10, 20]

    def cutting(offset: int) -> PartitionData | None:
        if offset in cuts:
            cuts.remove(offset)
            return None
        return log(offset)

    broker.on_fetch = cutting
    assert next_offsets(broker) == [10, 20, 30]
    assert broker.asked == [0, 10, 10, 20, 20]


def test_a_broker_that_says_nothing_in_time_uses_up_the_patience(broker: ScriptedBroker) -> None:
    def hanging(offset: int) -> PartitionData:
        with broker.was_asked:
            broker.was_asked.wait_for(lambda: is_over, timeout=PATIENCE_S)
        return log(offset)

    is_over = False
    broker.on_fetch = hanging
    # A host may be so slow that already the connection takes longer.
    refused = pytest.raises(UnreachableError, match=r"timed out|no response within 0\.03 s")
    with refused, opened(broker, timeout_s=0.03) as cluster:
        next(fetches(cluster, wanted(), 30))
    with broker.was_asked:
        is_over = True
        broker.was_asked.notify_all()
    assert len(broker.asked) < 5


def test_an_answer_may_be_empty_or_end_in_a_torn_batch(broker: ScriptedBroker) -> None:
    answers = [records_of(), records_of(batch(0) + batch(10)[:70]), records_of(batch(10))]
    broker.on_fetch = lambda _: answers.pop(0)
    assert next_offsets(broker, 20) == [0, 10, 20]


def test_a_batch_larger_than_an_old_broker_sends_at_once_is_reported(
    broker: ScriptedBroker,
) -> None:
    broker.on_fetch = lambda _: records_of(batch(0)[:100])
    with pytest.raises(UserError, match="t-0: the batch at offset 0 is larger than the 1000 bytes"):
        next_offsets(broker)


def test_batches_that_were_not_asked_for_are_refused(broker: ScriptedBroker) -> None:
    broker.on_fetch = lambda _: log(0)
    with pytest.raises(InvalidBatchError, match="end before the requested offset 10"):
        next_offsets(broker)


def test_what_the_leader_refuses_for_good_is_told_at_once(broker: ScriptedBroker) -> None:
    broker.on_fetch = lambda _: records_of(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(ApiError) as refused:
        next_offsets(broker)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert broker.asked == [0]


def test_batches_of_aborted_transactions_are_left_out_up_to_their_markers(
    broker: ScriptedBroker,
) -> None:
    parts = [
        batch(0, producer_id=1),
        batch(10, producer_id=2),
        batch(20),
        batch(30, producer_id=1),
        abort(40, 1),
        batch(41, producer_id=1),
    ]
    # The first transaction of producer 1 was committed before: it is the second that is aborted.
    broker.on_fetch = lambda _: records_of(b"".join(parts), aborted=[(1, 30)])
    with opened(broker) as cluster:
        (found,) = fetches(cluster, wanted(), 51)
        runs = [[one.base_offset for one in iter_batches(run)] for run in committed_runs(found)]
    assert runs == [[0, 10, 20], [40, 41]]


def test_another_leader_must_have_had_what_was_read_before_its_batches(
    broker: ScriptedBroker,
) -> None:
    epochs = {0: 3, 10: 3, 20: 5, 30: 5}
    broker.on_fetch = lambda offset: records_of(batch(offset, leader_epoch=epochs[offset]))
    broker.epoch_ends = {3: 20}
    assert next_offsets(broker, 40) == [10, 20, 30, 40]
    broker.epoch_ends = {3: 14}
    with pytest.raises(TruncatedError, match=r"t-0: the log was truncated to offset 14 .*below 20"):
        next_offsets(broker, 40)
