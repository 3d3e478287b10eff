"""Logs that another broker has written are looked through for aborts without an entry: in slices,
and consumers of committed records wait until it is their turn."""

import logging

import pytest

from ottla.broker.broker import Broker
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.broker.waiting.rooms import WaitingFetch
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.abort_check import SLICE_COUNT
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, disk, open_broker
from tests.support.kafkas_start import let_kafka_load

PRODUCER = 7
FIRST_ABORTED = 3 * SLICE_COUNT
COUNT = 4 * SLICE_COUNT
"""Batches of committed records, of one each, before and between which one transaction is aborted.
"""


def append(log: PartitionLog, sequence: int | None) -> None:
    is_transactional = sequence is not None
    builder = RecordBatchBuilder(
        producer_id=PRODUCER if is_transactional else -1,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=-1 if sequence is None else sequence,
        is_transactional=is_transactional,
    )
    builder.append(None, b"aborted" if is_transactional else b"committed", NOW_MS)
    log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)


def abort(log: PartitionLog) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=PRODUCER,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )


def left_by_another(*, with_index: bool) -> FakeFileSystem:
    """A directory as Kafka leaves it: without files of ours, and maybe with a lost index."""
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    log = broker.topics.partition("t", 0).log
    for number in range(COUNT):
        if number == FIRST_ABORTED:
            append(log, 0)
        append(log, None)
    abort(log)
    log.writer.write_out()
    broker.close()
    let_kafka_load(file_system, "/d/t-0")
    for name in file_system.list("/d/t-0"):
        if name.endswith(".txnindex") and not with_index:
            file_system.remove(f"/d/t-0/{name}")
    return file_system


def fetch(offset: int) -> FetchQuery:
    wanted = PartitionQuery(topic="t", index=0, offset=offset, max_size=1 << 20)
    return FetchQuery(partitions=[wanted], max_size=1 << 20, isolation=Isolation.LAST_STABLE)


def check_of(broker: Broker) -> PartitionLog:
    return broker.topics.partition("t", 0).log


def test_a_slice_reads_a_bounded_number_of_headers() -> None:
    broker = open_broker(left_by_another(with_index=True))
    log = check_of(broker)
    broker.scheduler.run_due(at(0))
    slices, monotonic_ms = 0, 1.0
    while log.abort_check is not None:
        bound = log.abort_check.bound
        broker.scheduler.run_due(at(monotonic_ms))
        monotonic_ms += 1
        slices += 1
        if log.abort_check is not None:
            assert log.abort_check.bound - bound <= SLICE_COUNT
        assert slices < 100
    assert slices >= COUNT // SLICE_COUNT - 1


@pytest.mark.parametrize("with_index", [False, True])
def test_a_consumer_waits_for_what_is_not_checked_and_sees_no_aborted_record(
    with_index: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        broker = open_broker(left_by_another(with_index=with_index))
        log = check_of(broker)
        waiting = broker.fetches.fetch_or_wait(fetch(FIRST_ABORTED), 1e9)
        assert isinstance(waiting, WaitingFetch), "nothing is known of these offsets yet"
        answered: list[object] = []
        for monotonic_ms in range(50):
            broker.scheduler.run_due(at(monotonic_ms))
            answered += broker.answers.take_answered(monotonic_ms)
        assert answered == [waiting]
    assert log.abort_check is None
    result = waiting.result
    assert result is not None
    data = result.partitions[0]
    assert not isinstance(data, Exception)
    assert data.records is not None
    ranges = AbortedRanges(data.aborted or [])
    seen = list(iter_batches(data.records.read(), allow_torn_tail=True))
    hidden = [one.base_offset for one in seen if ranges.covers(one) and not one.is_control]
    assert hidden == [FIRST_ABORTED]
    is_named = "lacks aborted transactions" in caplog.text
    assert is_named is not with_index
    assert "consumers of committed records wait for that" in caplog.text
    assert "its transaction indexes are checked" in caplog.text


def test_consumers_of_all_records_do_not_wait() -> None:
    broker = open_broker(left_by_another(with_index=False))
    query = FetchQuery(partitions=fetch(FIRST_ABORTED).partitions, max_size=1 << 20)
    assert not isinstance(broker.fetches.fetch_or_wait(query, 1e9), WaitingFetch)


def test_a_start_afterwards_looks_no_more() -> None:
    file_system = left_by_another(with_index=False)
    broker = open_broker(file_system)
    for monotonic_ms in range(50):
        broker.scheduler.run_due(at(monotonic_ms))
    broker.close()
    assert check_of(open_broker(file_system)).abort_check is None


def test_nothing_is_compacted_before() -> None:
    broker = open_broker(left_by_another(with_index=False), log_cleanup_policy="compact")
    log = check_of(broker)
    log.writer.roll(NOW_MS)
    log.writer.flush()
    assert log.config.is_compacted
    assert broker.log_jobs.cleaner.next_task(at(0)) is None
    log.maintenance.check_aborts(at_once=True)
    assert broker.log_jobs.cleaner.next_task(at(0)) is not None
