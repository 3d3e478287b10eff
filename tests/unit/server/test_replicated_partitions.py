"""Two or three brokers in one process that ask each other by the bytes of their requests."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.fetches import AskEpochEnd, Fetch, Fetched
from ottla.config.replication import RACK_AWARE
from ottla.metadata.quotas import quota_entity
from ottla.record.batch import Batch, iter_batches
from ottla.testing import CrashMode
from tests.support.brokers import id_of
from tests.support.log_transactions import Transactions
from tests.support.replicated_brokers import (
    ClusterInProcess,
    PartitionOrders,
    refused,
    replicas_of,
)

ORDERS = TopicPartition("orders", 0)
LAG_MS = 30_000
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def cluster(*replicas: int, leader: int = 1, **settings: str) -> ClusterInProcess:
    made = ClusterInProcess(ORDERS, replicas, **settings)
    made.lead(leader)
    return made


def batches(records: bytes) -> list[Batch]:
    return list(iter_batches(records))


# Produced with acks=all


def test_a_produce_is_answered_when_all_in_sync_replicas_have_it() -> None:
    brokers = cluster(1, 2, 3)
    produced = brokers.produce(1, b"one", b"two")
    brokers.follow(2)
    brokers.follow(2)
    assert produced.error is None
    brokers.follow(3)
    assert produced.error is None
    brokers.follow(3)
    assert produced.error is ErrorCode.NONE
    assert produced.answer is not None
    assert produced.answer.base_offset == 0


def test_what_is_committed_is_equal_byte_for_byte_on_all_replicas() -> None:
    brokers = cluster(1, 2, 3)
    for number in range(20):
        brokers.produce(1, b"value %d" % number, acks=1)
        if number % 3 == 0:
            brokers.replicate(1)
    brokers.replicate()
    assert [brokers.log(one).high_watermark for one in (1, 2, 3)] == [20, 20, 20]
    assert brokers.records(1) == brokers.records(2) == brokers.records(3)


def test_a_produce_with_acks_1_waits_for_nobody() -> None:
    assert cluster(1, 2).produce(1, b"one", acks=1).error is ErrorCode.NONE


def test_a_produce_that_is_not_committed_in_its_time_is_answered_so() -> None:
    brokers = cluster(1, 2)
    produced = brokers.produce(1, b"one", timeout_ms=500)
    brokers.let_pass(499)
    assert produced.error is None
    brokers.let_pass(1)
    assert produced.error is ErrorCode.REQUEST_TIMED_OUT


def test_a_produce_that_waits_is_answered_when_another_leads() -> None:
    brokers = cluster(1, 2)
    produced = brokers.produce(1, b"one")
    brokers.lead(2)
    assert produced.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_retry_of_what_is_committed_is_answered_at_once() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one", producer_id=7)
    brokers.replicate()
    brokers.produce(1, b"not yet committed")
    again = brokers.produce(1, b"one", producer_id=7)
    assert again.error is ErrorCode.NONE
    assert again.answer is not None
    assert (again.answer.base_offset, brokers.log(1).log_end_offset) == (0, 2)


@pytest.mark.parametrize("acks", [1, -1])
def test_a_follower_appends_nothing_for_producers(acks: int) -> None:
    brokers = cluster(1, 2)
    assert brokers.produce(2, b"one", acks=acks).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert brokers.log(2).log_end_offset == 0


def test_with_too_few_in_sync_replicas_nothing_is_appended() -> None:
    brokers = cluster(1, 2, min_insync_replicas="2")
    brokers.lead(1, isr=(1,))
    assert brokers.produce(1, b"one").error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert brokers.produce(1, b"one", acks=1).error is ErrorCode.NONE
    assert brokers.log(1).high_watermark == 0


# The ISR


def test_a_follower_that_is_gone_leaves_the_isr_and_producers_go_on() -> None:
    brokers = cluster(1, 2, 3)
    brokers.replicate()
    brokers.kill(3)
    produced = brokers.produce(1, b"one", timeout_ms=10 * LAG_MS)
    for _ in range(4):
        brokers.let_pass(LAG_MS / 2)
        brokers.replicate(1)
    assert produced.error is None
    assert brokers.answer_isr_change(1) == (1, 2)
    assert produced.error is ErrorCode.NONE


def test_a_follower_that_returns_joins_the_isr_when_it_has_caught_up() -> None:
    brokers = cluster(1, 2)
    brokers.lead(1, isr=(1,))
    brokers.produce(1, b"one", b"two")
    brokers.follow(2)
    assert replicas_of(brokers.brokers[1]).alter_partitions.next_request() == ()
    brokers.follow(2)
    assert brokers.answer_isr_change(1) == (1, 2)


def test_too_few_in_sync_replicas_after_the_append_are_said() -> None:
    brokers = cluster(1, 2, 3, min_insync_replicas="2")
    brokers.replicate()
    produced = brokers.produce(1, b"one", timeout_ms=10 * LAG_MS)
    for _ in range(4):
        brokers.let_pass(LAG_MS / 2)
    assert brokers.answer_isr_change(1) == (1,)
    brokers.follow(2)
    brokers.follow(2)
    assert produced.error is None
    assert brokers.produce(1, b"two").error is ErrorCode.NOT_ENOUGH_REPLICAS


# Another leader


def test_another_leader_has_what_was_acknowledged_and_the_old_one_cuts_the_rest() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"kept")
    brokers.replicate()
    brokers.produce(1, b"lost", acks=1)
    brokers.lead(2, isr=(2,))
    brokers.produce(2, b"another", acks=1)
    brokers.replicate()
    assert brokers.log(1).log_end_offset == 2
    assert brokers.records(1) == brokers.records(2)
    assert b"lost" not in brokers.records(1)
    entries = brokers.log(1).epochs.entries
    assert [(one.epoch, one.start_offset) for one in entries] == [(0, 0), (1, 1)]


def test_followers_of_before_2_7_ask_where_epochs_ended() -> None:
    brokers = cluster(1, 2, inter_broker_protocol_version="2.6")
    brokers.produce(1, b"kept")
    brokers.replicate()
    brokers.produce(1, b"lost", acks=1)
    brokers.lead(2, isr=(2,))
    brokers.produce(2, b"another", acks=1)
    brokers.replicate()
    assert brokers.records(1) == brokers.records(2)
    assert brokers.log(1).high_watermark == 2


@pytest.mark.parametrize("mode", [CrashMode.STRICT, CrashMode.RANDOM])
def test_a_killed_leader_comes_back_as_a_follower_with_what_is_committed(mode: CrashMode) -> None:
    brokers = cluster(1, 2)
    for number in range(5):
        brokers.produce(1, b"value %d" % number)
        brokers.replicate(2)
    brokers.kill(1, mode)
    brokers.lead(2, isr=(2,))
    brokers.produce(2, b"meanwhile")
    brokers.start(1)
    brokers.lead(2, isr=(2,))
    brokers.replicate()
    assert brokers.log(1).high_watermark == 6
    assert brokers.records(1) == brokers.records(2)


def test_what_is_committed_is_written_down_for_a_crash() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.replicate()
    for passed_ms in (5_000, 5_000, 0, 0, 0):  # a checkpoint is written in steps
        brokers.let_pass(passed_ms)
    brokers.kill(2, CrashMode.KEEP)
    brokers.start(2)
    assert brokers.log(2).high_watermark == 1


def test_a_new_replica_begins_where_the_leaders_log_begins() -> None:
    brokers = cluster(1, 2, 3)
    brokers.lead(1, isr=(1,))
    for number in range(6):
        brokers.produce(1, b"value %d" % number)
    brokers.log(1).maintenance.delete_records_before(4)
    brokers.replicate()
    log = brokers.log(2)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 6, 6)
    assert brokers.records(1) == brokers.records(2)


def test_a_log_that_begins_within_a_batch_is_replicated_with_the_whole_batch() -> None:
    brokers = cluster(1, 2)
    brokers.lead(1, isr=(1,))
    brokers.produce(1, b"a", b"b", b"c")
    brokers.log(1).maintenance.delete_records_before(2)
    brokers.replicate()
    log = brokers.log(2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert brokers.records(1) == brokers.records(2)


def test_a_follower_deletes_what_its_leader_has_deleted() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.produce(1, b"two")
    brokers.replicate()
    brokers.log(1).maintenance.delete_records_before(1)
    brokers.replicate()
    assert brokers.log(2).log_start_offset == 1


# DeleteRecords


def test_a_deletion_is_answered_when_all_replicas_have_deleted() -> None:
    brokers = with_three_records()
    deleted = brokers.delete_records(1, before=2)
    brokers.follow(2)
    brokers.follow(2)
    assert deleted.error is None
    brokers.follow(3)
    brokers.follow(3)
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 2)
    assert [brokers.log(one).log_start_offset for one in (1, 2, 3)] == [2, 2, 2]


def test_a_deletion_of_all_waits_for_the_high_watermark() -> None:
    brokers = with_three_records()
    brokers.produce(1, b"not yet committed", acks=1)
    deleted = brokers.delete_records(1, before=-1)
    brokers.replicate()
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 3)
    assert brokers.log(2).log_start_offset == 3


def test_a_deletion_that_followers_have_made_is_answered_at_once() -> None:
    brokers = with_three_records()
    brokers.delete_records(1, before=2)
    brokers.replicate()
    again = brokers.delete_records(1, before=1)
    assert (again.error, again.low_watermark) == (ErrorCode.NONE, 2)


def test_a_deletion_does_not_wait_for_replicas_that_are_not_up() -> None:
    brokers = with_three_records()
    brokers.kill(3)
    brokers.lead(1, isr=(1, 2))
    brokers.replicate()
    deleted = brokers.delete_records(1, before=1)
    brokers.replicate()
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 1)


def test_a_deletion_that_waits_for_a_replica_that_dies_is_answered_when_lags_are_looked_for() -> (
    None
):
    brokers = with_three_records()
    deleted = brokers.delete_records(1, before=1, timeout_ms=10 * LAG_MS)
    brokers.follow(2)
    brokers.follow(2)
    brokers.kill(3)
    brokers.orders.announce(brokers.brokers)
    assert deleted.error is None
    brokers.let_pass(LAG_MS / 2)
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 1)


def test_a_deletion_that_not_all_have_made_in_its_time_says_so_and_holds() -> None:
    brokers = with_three_records()
    deleted = brokers.delete_records(1, before=2, timeout_ms=500)
    brokers.follow(2)
    brokers.follow(2)
    brokers.let_pass(499)
    assert deleted.error is None
    brokers.let_pass(1)
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert brokers.log(1).log_start_offset == 2


def test_a_deletion_that_waits_is_answered_when_another_leads() -> None:
    brokers = with_three_records()
    deleted = brokers.delete_records(1, before=2)
    brokers.lead(2)
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.parametrize(
    ("broker_id", "before", "error"),
    [
        (1, 4, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_deletion_that_cannot_be_is_refused_at_once(
    broker_id: int, before: int, error: ErrorCode
) -> None:
    deleted = with_three_records().delete_records(broker_id, before=before)
    assert (deleted.error, deleted.low_watermark) == (error, -1)


def with_three_records() -> ClusterInProcess:
    """Each a batch of its own, committed on three replicas."""
    brokers = cluster(1, 2, 3)
    for value in (b"one", b"two", b"three"):
        brokers.produce(1, value)
    brokers.replicate()
    return brokers


# Who leads (KIP-951)

FOLLOWER_2 = (2, "broker-2", 9092, "b")


@pytest.mark.parametrize("version", [10, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_that_asks_a_follower_hears_who_leads(version: int, acks: int) -> None:
    brokers = led_by_2()
    produced = brokers.produce(1, b"one", acks=acks, version=version)
    assert (produced.error, leader_in(produced.answer)) == (NOT_LEADER, (2, 1))
    assert nodes_in(produced.response) == [FOLLOWER_2]


def test_a_producer_that_waits_hears_who_leads_now() -> None:
    brokers = cluster(1, 2)
    produced = brokers.produce(1, b"one", version=10)
    brokers.lead(2)
    assert (produced.error, leader_in(produced.answer)) == (NOT_LEADER, (2, 1))


def test_a_consumer_that_asks_a_replica_that_was_stopped_hears_who_leads() -> None:
    brokers = led_by_2()
    brokers.orders.stop({1: brokers.brokers[1]}, delete=False)
    response = brokers.fetch_response(1, 0, 16)
    (partition,) = response.responses[0].partitions
    assert (partition.error_code, leader_in(partition)) == (NOT_LEADER, (2, 1))
    assert nodes_in(response) == [FOLLOWER_2]


def test_a_consumer_that_knows_an_old_epoch_hears_who_leads() -> None:
    response = led_by_2().fetch_response(1, 0, 16, current_leader_epoch=0)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (leader_in(partition), nodes_in(response)) == ((2, 1), [FOLLOWER_2])


def test_older_clients_and_those_of_a_partition_that_nobody_leads_hear_of_no_leader() -> None:
    brokers = led_by_2()
    assert leader_in(brokers.produce(1, b"one", version=9).answer) is None
    brokers.orders.stop({1: brokers.brokers[1]}, delete=False)
    assert leader_in(brokers.fetch(1, 0, version=15)) is None
    brokers.lead(-1)
    produced = brokers.produce(1, b"one", version=10)
    assert (produced.error, leader_in(produced.answer)) == (NOT_LEADER, (-1, 2))
    assert nodes_in(produced.response) == []


def led_by_2() -> ClusterInProcess:
    brokers = cluster(1, 2)
    brokers.orders.racks = {2: "b"}
    brokers.lead(2)
    return brokers


def leader_in(partition: Any) -> tuple[int, int] | None:
    leader = partition.current_leader
    return leader and (leader.leader_id, leader.leader_epoch)


def nodes_in(response: Any) -> list[tuple[int, str, int, str | None]]:
    return [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]


# Read


def test_consumers_see_what_is_committed() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    assert not brokers.fetch(1, 0).records
    assert brokers.list_offset(1, -1).offset == 0
    assert brokers.list_offset(1, -1, replica_id=2).offset == 1
    brokers.replicate()
    assert brokers.fetch(1, 0).records == brokers.records(1)
    assert brokers.list_offset(1, -1).offset == 1


def test_consumers_of_version_11_read_from_followers_and_older_ones_from_leaders() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.replicate()
    assert brokers.fetch(2, 0, version=11).records == brokers.records(1)
    assert brokers.fetch(2, 0, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert brokers.list_offset(2, -1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_high_watermark_in_the_middle_of_a_segment_ends_what_is_read() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.replicate()
    committed = brokers.records(1)
    brokers.produce(1, b"two", acks=1)
    assert brokers.fetch(1, 0).records == committed


def test_an_old_epoch_is_fenced_and_a_new_one_is_not_known() -> None:
    brokers = cluster(1, 2)
    brokers.lead(1)
    fetch = brokers.fetch
    assert fetch(1, 0, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(1, 0, current_leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("known_epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, NOT_LEADER), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_who_does_not_lead_compares_epochs_first(known_epoch: int, error: ErrorCode) -> None:
    asked = AskEpochEnd(partition=ORDERS, leader_epoch=known_epoch, epoch=0)
    assert led_by_2().epoch_end(1, asked).error is error


def test_a_new_leader_names_no_end_that_is_before_what_was_said() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.follow(2)
    brokers.follow(2)
    assert brokers.log(2).high_watermark == 0
    brokers.lead(2)
    assert brokers.list_offset(2, -1).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    brokers.replicate()
    assert brokers.list_offset(2, -1).offset == 1


def test_with_a_rack_consumers_are_sent_to_the_in_sync_replica_there() -> None:
    brokers = ClusterInProcess(ORDERS, (1, 2, 3), replica_selector_class=RACK_AWARE)
    brokers.orders.racks = {1: "a", 2: "b", 3: "c"}
    brokers.lead(1)
    brokers.produce(1, b"one")
    brokers.replicate()
    found = brokers.fetch(1, 0, rack_id="b")
    assert (found.preferred_read_replica, found.error_code, bytes(found.records)) == (2, 0, b"")
    assert brokers.fetch(2, 0, rack_id="b").records == brokers.records(1)
    for rack in ("a", "", "elsewhere"):
        found = brokers.fetch(1, 0, rack_id=rack)
        assert (found.preferred_read_replica, found.records) == (-1, brokers.records(1))


def test_no_consumer_is_sent_to_a_replica_that_lacks_what_it_asks_for() -> None:
    brokers = ClusterInProcess(ORDERS, (1, 2), replica_selector_class=RACK_AWARE)
    brokers.orders.racks = {2: "b"}
    brokers.lead(1)
    brokers.replicate()
    brokers.produce(1, b"one", b"two", acks=1)
    assert brokers.fetch(1, 1, rack_id="b").preferred_read_replica == -1
    brokers.lead(1, isr=(1,))
    brokers.replicate()
    assert brokers.fetch(1, 0, rack_id="b").preferred_read_replica == -1


# Throttled


def test_a_throttled_follower_gets_records_at_the_leaders_rate_until_it_is_in_sync() -> None:
    brokers = cluster(1, 2, leader_replication_throttled_rate="100")
    brokers.lead(1, isr=(1,))
    brokers.configure(1, "leader.replication.throttled.replicas", "0:1,0:2")
    for number in range(4):
        brokers.produce(1, b"%d" % number + b"v" * 2000)
    ends = []
    for _ in range(8):
        brokers.follow(2, max_size=2100)
        ends.append(brokers.log(2).log_end_offset)
    assert ends == [1] * 8
    for _ in range(200):
        brokers.let_pass(1000)
        brokers.follow(2, max_size=2100)
    assert brokers.log(2).log_end_offset == 4


def test_a_follower_that_fetches_throttled_replicas_too_fast_asks_later() -> None:
    brokers = cluster(1, 2, follower_replication_throttled_rate="100")
    brokers.lead(1, isr=(1,))
    brokers.configure(2, "follower.replication.throttled.replicas", "*")
    for number in range(3):
        brokers.produce(1, b"%d" % number + b"v" * 2000)
    brokers.follow(2, max_size=2100)
    replicas = replicas_of(brokers.brokers[2])
    assert replicas.requests(brokers.orders.at) == []
    brokers.let_pass(60_000)
    assert len(replicas.requests(brokers.orders.at)) == 1


def test_an_in_sync_follower_is_never_throttled() -> None:
    brokers = cluster(1, 2, leader_replication_throttled_rate="1")
    brokers.configure(1, "leader.replication.throttled.replicas", "*")
    for number in range(4):
        produced = brokers.produce(1, b"%d" % number + b"v" * 2000)
        brokers.replicate(2)
        assert produced.error is ErrorCode.NONE


# Disks


def test_a_failed_directory_gives_its_leaderships_away() -> None:
    brokers = cluster(1, 2)
    produced = brokers.produce(1, b"one")
    (directory,) = brokers.brokers[1].directories
    directory.health.fail(OSError("the disk is gone"))
    brokers.let_pass(1)
    assert produced.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    applied = brokers.orders.lead(1, brokers.brokers)
    assert refused(applied) == {1: [ErrorCode.KAFKA_STORAGE_ERROR]}
    assert brokers.produce(1, b"two").error is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_may_lie_in_a_failed_directory_is_not_made_again() -> None:
    brokers = cluster(1, 2)
    (directory,) = brokers.brokers[1].directories
    directory.health.fail(OSError("the disk is gone"))
    other = PartitionOrders(TopicPartition("payments", 0), (1,), id_of(78), leader_epoch=4)
    assert refused(other.lead(1, brokers.brokers)) == {1: [ErrorCode.KAFKA_STORAGE_ERROR]}


# Retention, compaction, transactions


def test_followers_go_on_when_the_leaders_retention_has_overtaken_them() -> None:
    brokers = cluster(1, 2, log_segment_bytes="300", log_roll_jitter_ms="0")
    brokers.replicate()
    brokers.lead(1, isr=(1,))
    for number in range(12):
        brokers.produce(1, b"value %d" % number)
    log = brokers.log(1)
    log.maintenance.delete_records_before(9)
    log.maintenance.delete_segments_below_start()
    brokers.replicate()
    assert brokers.log(2).log_start_offset == 9
    assert brokers.log(2).high_watermark == 12
    assert brokers.records(1) == brokers.records(2)


def test_followers_take_the_gaps_that_compaction_leaves() -> None:
    brokers = cluster(1, 2)
    brokers.lead(1, isr=(1,))
    for number in range(6):
        brokers.produce(1, b"value %d" % number)
    kept = [one for one in batches(brokers.records(1)) if one.base_offset in (1, 4, 5)]
    brokers.follow(2)
    brokers.log(2).maintenance.truncate_fully_and_start_at(0, now_ms=0)
    replicas = replicas_of(brokers.brokers[2])
    replicas.partitions[ORDERS].truncated()
    ((_, asked),) = replicas.requests(brokers.orders.at)
    assert isinstance(asked, Fetch)
    fetched = Fetched(
        partition=ORDERS,
        leader_epoch=asked.leader_epoch,
        fetch_offset=asked.fetch_offset,
        high_watermark=6,
        records=b"".join(one.buffer[one.position : one.position + one.size] for one in kept),
    )
    replicas.take(fetched, brokers.orders.at)
    assert brokers.log(2).high_watermark == 6
    assert [one.base_offset for one in batches(brokers.records(2))] == [1, 4, 5]


def test_a_batch_that_is_cut_off_at_the_end_of_an_answer_comes_again() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.produce(1, b"two")
    ((_, asked),) = replicas_of(brokers.brokers[2]).requests(brokers.orders.at)
    assert isinstance(asked, Fetch)
    whole = brokers.fetch(1, 0, replica_id=2, version=12).records
    fetched = Fetched(
        partition=ORDERS,
        leader_epoch=asked.leader_epoch,
        fetch_offset=0,
        records=bytes(whole)[:-3],
    )
    replicas_of(brokers.brokers[2]).take(fetched, brokers.orders.at)
    assert brokers.log(2).log_end_offset == 1
    brokers.replicate()
    assert brokers.records(1) == brokers.records(2)


def test_the_last_stable_offset_is_never_after_the_high_watermark() -> None:
    brokers = cluster(1, 2)
    brokers.produce(1, b"one")
    brokers.replicate()
    partition, broker = brokers.orders.partition(brokers.brokers[1]), brokers.brokers[1]
    log = partition.log
    transactions = Transactions(log)
    transactions.write(1)
    replicas_of(broker).partitions[ORDERS].written_out()
    assert (log.last_stable_offset, log.high_watermark) == (1, 1)
    brokers.replicate()
    assert (log.last_stable_offset, log.high_watermark) == (1, 2)
    transactions.end(1, is_commit=True)
    replicas_of(broker).partitions[ORDERS].written_out()
    assert (log.last_stable_offset, log.high_watermark) == (1, 2)
    brokers.follow(2)
    assert log.last_stable_offset == 1
    brokers.replicate()
    assert (log.last_stable_offset, brokers.log(2).last_stable_offset) == (3, 3)
    assert brokers.fetch(2, 1, isolation_level=1).aborted_transactions == []


def test_quotas_of_clients_hold_no_follower_back() -> None:
    brokers = cluster(1, 2)
    everybody = quota_entity({"client-id": None})
    brokers.brokers[1].quotas.change({everybody: {"consumer_byte_rate": 1.0}})
    for _ in range(5):
        brokers.produce(1, b"v" * 1000, acks=1)
        brokers.replicate(2)
    assert brokers.log(2).log_end_offset == 5
