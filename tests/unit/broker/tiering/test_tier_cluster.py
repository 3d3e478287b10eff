"""Leaders copy, followers follow; a replica that is lost begins with what the tier has; and the
history of the log decides what counts.
"""

from typing import Any

import pytest

from ottla.broker.tiering.tiered_partition import IN_DOUBT_MS
from ottla.storage.remote.segment_metadata import SegmentState
from ottla.testing import CrashMode
from tests.support.brokers import disk
from tests.support.replicated_brokers import replicas_of
from tests.support.tier_cluster import PLACE, TierCluster

FINISHED = SegmentState.COPY_SEGMENT_FINISHED


def by(leader: int, *offsets: int) -> list[bytes]:
    return [b"%04d by %d" % (one, leader) for one in range(*offsets)]


def ranges(cluster: TierCluster, broker_id: int) -> list[tuple[int, int, int]]:
    return [
        (one.start_offset, one.end_offset, one.broker_id)
        for one in cluster.index(broker_id).segments()
        if one.state is FINISHED
    ]


def test_leaders_copy_and_followers_let_go_of_what_is_in_the_tier() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 35)
    cluster.work()
    expected = [(0, 9, 1), (10, 19, 1), (20, 29, 1)]
    assert ranges(cluster, 1) == ranges(cluster, 2) == expected
    assert cluster.log(2).offsets.highest_remote_offset == 29
    for one in (1, 2):
        assert cluster.log(one).log_start_offset == 0
        assert cluster.log(one).local_start_offset == 30
        assert cluster.values(one) == by(1, 35)


def test_a_leader_whose_metadata_another_broker_leads_copies_too() -> None:
    cluster = TierCluster()
    cluster.lead(2)
    cluster.fill(2, 25)
    cluster.work()
    assert ranges(cluster, 1) == ranges(cluster, 2) == [(0, 9, 2), (10, 19, 2)]
    cluster.lead(1)
    cluster.fill(1, 10)
    cluster.work()
    assert ranges(cluster, 2) == [(0, 9, 2), (10, 19, 2), (20, 29, 1)]
    assert cluster.values(2) == by(2, 25) + by(1, 25, 35)


def test_a_replica_that_is_lost_begins_where_the_leader_is_local() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 25)
    cluster.lead(1)
    cluster.fill(1, 10)
    cluster.work()
    cluster.kill(2)
    cluster.disks[2] = disk("/d")
    cluster.start(2)
    cluster.lead(1, isr=(1,))
    cluster.work()
    one, two = cluster.log(1), cluster.log(2)
    assert (two.log_start_offset, two.local_start_offset) == (0, one.local_start_offset)
    assert two.epochs.entries == one.epochs.entries[: len(two.epochs.entries)]
    assert len(two.epochs.entries) == 2
    assert two.snapshots.offsets[0] == two.local_start_offset
    assert cluster.values(2) == cluster.values(1) == by(1, 35)
    assert cluster.remote_logs(2).counts.of("t").builds == 1
    cluster.lead(2)
    cluster.fill(2, 10)
    cluster.work()
    assert cluster.values(1) == cluster.values(2) == by(1, 35) + by(2, 35, 45)


def lost_follower(cluster: TierCluster, *, deleted: int = 0) -> None:
    """Has broker 2 lose its log, of which the tier has the first 30 of 35 records."""
    cluster.topic_settings["local.retention.bytes"] = "1900"
    cluster.lead(1)
    cluster.fill(1, 25)
    cluster.lead(1)
    cluster.fill(1, 10)
    cluster.work()
    assert cluster.index(1).segments()[-1].end_offset == 29
    cluster.kill(2)
    cluster.disks[2] = disk("/d")
    if deleted:
        cluster.brokers[1].admin.delete_records({PLACE: deleted})
    cluster.start(2)
    cluster.lead(1, isr=(1,))
    cluster.work()


@pytest.mark.parametrize("deleted", [0, 5, 20], ids=["in tier", "in tier after start", "local"])
def test_an_empty_follower_may_begin_with_what_is_not_in_the_tier_yet(deleted: int) -> None:
    cluster = TierCluster(follower_fetch_last_tiered_offset_enable="true")
    lost_follower(cluster, deleted=deleted)
    one, two = cluster.log(1), cluster.log(2)
    assert one.local_start_offset < 30
    assert (two.log_start_offset, two.local_start_offset) == (deleted, 30)
    assert two.epochs.entries[-1] == one.epochs.entries[len(two.epochs.entries) - 1]
    assert two.snapshots.offsets[0] == 30
    assert cluster.values(2) == cluster.values(1) == by(1, deleted, 35)
    cluster.lead(2)
    cluster.fill(2, 10)
    cluster.work()
    assert cluster.values(1) == cluster.values(2) == by(1, deleted, 35) + by(2, 35, 45)


def test_without_the_setting_an_empty_follower_begins_where_the_leader_is_local() -> None:
    cluster = TierCluster()
    lost_follower(cluster)
    assert cluster.log(2).local_start_offset == cluster.log(1).local_start_offset < 30


def test_a_follower_to_which_the_end_of_the_tier_is_of_no_use_begins_as_others() -> None:
    cluster = TierCluster(follower_fetch_last_tiered_offset_enable="true")
    # The leader tells what was copied once, as Kafka's does; no upload has it.
    known = cluster.list_offset

    def told(broker_id: int, timestamp: int, *more: int, **named: int) -> Any:
        answer = known(broker_id, timestamp, *more, **named)
        if timestamp == -5:
            answer.offset += 3
        return answer

    cluster.list_offset = told  # type: ignore[method-assign]
    lost_follower(cluster)
    cluster.work_without_logs(rounds=15)
    assert cluster.remote_logs(2).counts.of("t").build_errors == 1
    assert cluster.log(2).local_start_offset == cluster.log(1).local_start_offset < 30
    assert cluster.values(2) == by(1, 35)


def test_an_unclean_election_keeps_the_history_of_the_new_leader() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 15)
    for number in range(15, 35):  # broker 2 does not get these
        cluster.produce(1, b"%04d by 1" % number, acks=1)
    assert cluster.log(2).log_end_offset == 15
    cluster.lead(1, isr=(1,))
    cluster.log(1).writer.move_high_watermark(35)
    held = cluster.brokers.pop(2)
    cluster.work()
    assert ranges(cluster, 1) == [(0, 9, 1), (10, 19, 1), (20, 29, 1)]
    cluster.brokers[2] = held
    cluster.lead(2, isr=(2,))
    cluster.fill(2, 20)
    cluster.work(6)
    assert cluster.values(2) == by(1, 15) + by(2, 15, 35)
    assert cluster.values(1) == cluster.values(2)


def test_a_restart_keeps_a_log_whose_beginning_is_in_the_tier() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 35)
    cluster.work()
    cluster.kill(2, CrashMode.KEEP)
    cluster.start(2)
    cluster.lead(1, isr=(1,))
    cluster.work()
    log = cluster.log(2)
    assert (log.log_start_offset, log.local_start_offset) == (0, 30)
    assert cluster.remote_logs(2).counts.of("t").builds == 0
    assert cluster.values(2) == by(1, 35)


def test_a_building_that_a_crash_interrupts_begins_again() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 35)
    cluster.work()
    log = cluster.log(2)
    log.maintenance.truncate_fully_and_start_at(30, now_ms=0, log_start=0)
    log.epochs.clear()
    cluster.orders.partition(cluster.brokers[2]).directory.checkpoints.write_log_starts()
    cluster.kill(2)
    cluster.start(2)
    cluster.lead(1, isr=(1,))
    cluster.work()
    assert cluster.remote_logs(2).counts.of("t").builds == 1
    assert cluster.log(2).epochs.entries[0].start_offset == 0
    assert cluster.values(2) == by(1, 35)


def test_uploads_go_with_their_topic_and_not_with_a_replica_that_moves() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 35)
    cluster.work()
    cluster.orders.stop({2: cluster.brokers[2]}, delete=True)
    cluster.work_without_logs()
    assert len(ranges(cluster, 1)) == 3
    cluster.orders.delete(cluster.brokers)
    cluster.work_without_logs()
    assert cluster.remote_logs(1).index_of(cluster.orders.topic_id, 0) is None
    assert cluster.objects == []


def test_an_upload_that_may_still_be_recorded_as_finished_is_not_deleted() -> None:
    cluster = TierCluster()
    cluster.lead(2)
    cluster.fill(2, 25)
    cluster.work_until_sent(SegmentState.COPY_SEGMENT_FINISHED)
    cluster.kill(2, CrashMode.KEEP)
    cluster.start(2)
    cluster.lead(2, isr=(2,))
    cluster.work()  # the record comes now
    cluster.let_pass(IN_DOUBT_MS)
    cluster.work()
    assert ranges(cluster, 2) == [(0, 9, 2), (10, 19, 2)]
    assert cluster.log(2).local_start_offset == 20
    assert cluster.values(2) == by(2, 25)


def test_what_a_dead_broker_has_begun_goes_when_the_log_starts_after_it() -> None:
    cluster = TierCluster()
    cluster.lead(2)
    cluster.fill(2, 15)
    cluster.work_until_sent(SegmentState.COPY_SEGMENT_FINISHED)
    cluster.kill(2, CrashMode.KEEP)
    cluster._asks.clear()
    cluster.lead(1, isr=(1,))
    cluster.brokers[1].admin.delete_records({PLACE: 10})
    cluster.work()
    (begun,) = cluster.index(1).segments()
    assert (begun.broker_id, begun.state) == (2, SegmentState.COPY_SEGMENT_STARTED)
    assert cluster.objects
    cluster.let_pass(IN_DOUBT_MS)  # its last record might come until then
    cluster.work()
    assert cluster.index(1).segments() == cluster.objects == []


def test_a_leader_that_has_not_heard_of_a_deletion_starts_where_the_tier_does() -> None:
    cluster = TierCluster()
    cluster.lead(1)
    cluster.fill(1, 35)
    cluster.work()
    cluster.brokers[1].admin.delete_records({PLACE: 15})
    held = cluster.brokers.pop(2)
    cluster.work()
    assert ranges(cluster, 1) == [(10, 19, 1), (20, 29, 1)]
    cluster.brokers[2] = held
    cluster.lead(2, isr=(2,))
    assert cluster.log(2).log_start_offset == 0
    cluster.work()
    assert cluster.log(2).log_start_offset == 10
    assert cluster.values(2) == by(1, 10, 35)


@pytest.mark.parametrize("isr", [(1, 2), (1,)])
def test_a_copy_that_meets_damage_has_another_replica_lead_and_copy(isr: tuple[int, ...]) -> None:
    cluster = TierCluster()
    cluster.lead(1, isr)
    cluster.fill(1, 15)
    cluster.log(1).writer.flush()
    cluster.disks[1].open("/d/t-0/00000000000000000000.log", writable=True).truncate(100)
    cluster.work_without_logs()
    replicas = replicas_of(cluster.brokers[1])
    assert set(replicas.lost) == ({PLACE} if len(isr) > 1 else set())
    if replicas.lost:
        cluster.orders.lead(2, cluster.brokers, (2,))
        cluster.work_without_logs(4)
        assert ranges(cluster, 2) == [(0, 9, 2)]
