"""What a log knows beside its records, and that it moves with them."""

import pytest

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.log_copy import LogCopy
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk
from tests.support.logs import values
from tests.support.moving import (
    finish_moves,
    move,
    numbered,
    opened,
    partition_of,
    pass_time,
    produce,
)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d", "/e", "/f")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    """With a topic t of one partition, which lies in /d."""
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    return broker


def test_the_start_of_a_log_moves_though_it_lies_within_a_batch(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    for first in range(0, 30, 3):
        records = batch(*numbered(3, first=first))
        broker.appends.append(broker.topics.partition("t", 0), records, now_ms=NOW_MS)
    broker.appends.write_out()
    log = partition_of(broker).log
    log.maintenance.delete_records_before(13)
    broker.directories[0].checkpoints.write()
    log.maintenance.delete_segments_below_start()
    move(broker)
    for _ in range(2):
        log = partition_of(broker).log
        assert log.log_start_offset == 13
        assert log.segments.first.base_offset == 12
        assert values(log) == numbered(17, first=13)
        broker = opened(file_system.crash(CrashMode.KEEP))


def test_records_deleted_during_a_move_are_gone_after_it(broker: Broker) -> None:
    produce(broker, *numbered(40))
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    partition_of(broker).log.maintenance.delete_records_before(38)
    finish_moves(broker)
    assert values(partition_of(broker).log) == numbered(2, first=38)


def test_a_log_whose_start_overtakes_its_copy_is_copied_from_there(broker: Broker) -> None:
    produce(broker, *numbered(20))
    log = partition_of(broker).log
    future = broker.directories[1].create_future("t", 0, broker.topics.get("t").topic_id, 0)
    copy = LogCopy(log, future)
    copy.step(1, NOW_MS)
    log.maintenance.delete_records_before(15)
    while copy.step(1, NOW_MS):
        pass
    assert (future.segments.first.base_offset, copy.lag) == (15, 0)


def test_an_empty_log_that_begins_late_moves(broker: Broker) -> None:
    produce(broker, *numbered(20))
    log = partition_of(broker).log
    log.maintenance.delete_records_before(20)
    move(broker)
    log = partition_of(broker).log
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    produce(broker, b"20")
    assert values(log) == [b"20"]


def test_epochs_and_producers_move(broker: Broker, file_system: FakeFileSystem) -> None:
    partition = partition_of(broker)
    for epoch in (0, 3, 4):
        partition.leader_epoch = epoch
        broker.appends.append(
            broker.topics.partition("t", 0), batch(b"x", producer_id=70 + epoch), now_ms=NOW_MS
        )
    broker.appends.write_out()
    log = partition.log
    log.maintenance.delete_records_before(2)
    move(broker)
    broker.close()
    broker = opened(file_system.crash(CrashMode.KEEP))
    moved = partition_of(broker).log
    assert moved.epochs.entries == log.epochs.entries
    assert sorted(moved.producers.entries) == [70, 73, 74]
    assert moved.producers.entries[70].last_sequence == 0
    info = broker.appends.append(
        broker.topics.partition("t", 0), batch(b"x", producer_id=70), now_ms=NOW_MS
    )
    assert info.size == 0, "its record is deleted, but the retry is known"


def test_an_open_transaction_moves_and_can_be_ended(broker: Broker) -> None:
    log = partition_of(broker).log
    builder = RecordBatchBuilder(
        producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(None, b"x", NOW_MS)
    log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    log.writer.write_out()
    move(broker)
    log = partition_of(broker).log
    assert (log.last_stable_offset, log.high_watermark) == (0, 1)
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=1),
        producer_id=9,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
        base_offset=1,
    )
    log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.writer.write_out()
    assert log.last_stable_offset == 2
    assert [one.first_offset for one in log.reader.aborted_transactions(0, 2)] == [0]


def test_what_the_cleaner_knows_moves(broker: Broker) -> None:
    produce(broker, *numbered(20))
    key = ("t", 0)
    broker.directories[0].checkpoints.move_cleaned(key, 7)
    move(broker)
    assert [one.checkpoints.cleaned.get(key) for one in broker.directories] == [None, 7, None]
    broker.log_jobs.moves.request("t", 0, "/f")
    broker.log_jobs.moves.request("t", 0, "/e")
    assert [one.checkpoints.cleaned.get(key) for one in broker.directories] == [None, 7, None]


def test_offsets_that_compaction_has_taken_from_the_end_stay_taken(broker: Broker) -> None:
    produce(broker, *numbered(3))
    log = partition_of(broker).log
    log.writer.roll(NOW_MS, base_offset=9)
    log.offsets.appended(9)
    log.writer.write_out()
    move(broker)
    log = partition_of(broker).log
    assert (values(log), log.log_end_offset) == (numbered(3), 9)
    produce(broker, b"next")
    assert values(log)[-1] == b"next"
