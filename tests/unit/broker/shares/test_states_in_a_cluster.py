"""States of share groups in a cluster: coordinators on other brokers, that change and fail."""

import random
from itertools import count

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import SHARE_GROUP_STATE
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
    WriteState,
)
from ottla.broker.shares.persister import GIVE_UP_MS
from ottla.cluster.share_state_channels import message_of
from ottla.coordinator.share.coordinator import StateWrite
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch
from ottla.testing import CrashMode
from tests.support.replicated_brokers import Asked
from tests.support.share_cluster import KEY, ShareCluster
from tests.support.share_states import accepted

NONE = ErrorCode.NONE


@pytest.fixture
def cluster() -> ShareCluster:
    cluster = ShareCluster()
    cluster.lead(1)
    return cluster


def write(leader_epoch: int, state_epoch: int = 1) -> WriteState:
    return WriteState(KEY, StateWrite(state_epoch, leader_epoch, -1, ()))


def test_a_broker_asks_the_coordinator_on_another(cluster: ShareCluster) -> None:
    assert cluster.answers(2, InitializeState(KEY, 1, 3))[0].error is NONE
    batches = [StateBatch(5, 8, DeliveryState.ACKNOWLEDGED, 1)]
    change = StateWrite(1, 5, 4, batches, complete_count=4)
    assert cluster.answers(2, WriteState(KEY, change))[0].error is NONE
    (read,) = cluster.answers(3, ReadState(KEY, 5))
    assert (read.state.state_epoch, read.state.start_offset) == (1, 4)
    assert read.state.batches == tuple(batches)
    (found,) = cluster.answers(3, SummarizeState(KEY))
    summary = found.state
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (1, 5, 4)
    assert summary.complete_count == 4
    assert cluster.answers(2, DeleteState(KEY))[0].error is NONE
    assert cluster.answers(2, SummarizeState(KEY))[0].state.start_offset == -1
    (refused,) = cluster.answers(2, write(5))
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message == "The state of the partition was not initialized."


def test_the_first_versions_have_no_number_of_final_records(cluster: ShareCluster) -> None:
    cluster.answers(2, InitializeState(KEY, 1, 0))
    change = StateWrite(1, 0, -1, [StateBatch(2, 4, DeliveryState.ACKNOWLEDGED, 1)], 0)
    written = Asked(cluster, 1, message_of([WriteState(KEY, change)]), 0)
    cluster.replicate()
    assert written.response is not None
    found = cluster.ask(1, message_of([SummarizeState(KEY)]), 0).results[0].partitions[0]
    assert (found.error_code, found.start_offset, found.delivery_complete_count) == (0, 0, -1)
    newest = cluster.ask(1, message_of([SummarizeState(KEY)]), 1).results[0].partitions[0]
    assert newest.delivery_complete_count == 3


def test_an_answer_waits_until_the_replicas_have_the_record(cluster: ShareCluster) -> None:
    cluster.load()
    here, elsewhere = cluster.begin(1, InitializeState(KEY, 1, 0)), cluster.begin(2, write(0))
    cluster.deliver()
    cluster.bring_back()
    assert here.result is None
    assert elsewhere.result is None
    cluster.replicate()
    cluster.bring_back()
    assert here.result is not None
    assert elsewhere.result is not None
    assert [one.error for one in (*here.result, *elsewhere.result)] == [NONE, NONE]


def test_what_is_asked_meanwhile_goes_into_the_next_request_together(
    cluster: ShareCluster,
) -> None:
    cluster.answers(2, InitializeState(KEY, 1, 0))
    waiting = [cluster.begin(2, accepted(KEY, 0))]
    waiting += [cluster.begin(2, accepted(KEY._replace(partition=one), 0)) for one in range(1, 5)]
    assert [len(request.requests) for _, request in cluster.queue] == [1]
    cluster.go_on()
    cluster.go_on()
    assert [len(request.requests) for _, request in cluster.queue] == [4]
    while any(one.result is None for one in waiting):
        cluster.go_on()


def test_the_next_coordinator_has_what_the_one_before_it_has_answered(
    cluster: ShareCluster,
) -> None:
    cluster.answers(1, InitializeState(KEY, 1, 0))
    cluster.answers(2, accepted(KEY, 4, 7))
    before = cluster.states(1)
    cluster.lead(3)
    cluster.load()
    assert cluster.states(1) == {}
    assert cluster.states(3) == before
    assert cluster.answers(1, accepted(KEY, 8))[0].error is NONE
    assert cluster.states(3)[KEY].batches == (StateBatch(4, 8, DeliveryState.ACKNOWLEDGED, 1),)


def test_a_write_that_was_under_way_is_repeated_at_the_next_coordinator(
    cluster: ShareCluster,
) -> None:
    cluster.answers(1, InitializeState(KEY, 1, 0))
    here, elsewhere = cluster.begin(1, accepted(KEY, 1)), cluster.begin(2, accepted(KEY, 2))
    cluster.deliver()
    cluster.lead(2)
    while here.result is None or elsewhere.result is None:
        cluster.go_on()
    assert [here.result[0].error, elsewhere.result[0].error] == [NONE, NONE]
    assert cluster.states(2)[KEY].batches == (StateBatch(1, 2, DeliveryState.ACKNOWLEDGED, 1),)


def test_a_coordinator_that_dies_loses_nothing_that_it_has_answered(cluster: ShareCluster) -> None:
    cluster.answers(2, InitializeState(KEY, 1, 0))
    cluster.answers(2, accepted(KEY, 4, 7))
    lost = cluster.begin(2, accepted(KEY, 9))
    cluster.kill(1)
    cluster.go_on()
    assert lost.result is None
    cluster.lead(3, isr=(2, 3))
    while lost.result is None:
        cluster.go_on()
    assert lost.result[0].error is NONE
    first, second = cluster.states(3)[KEY].batches
    assert ((first.first, first.last), second.first) == ((4, 7), 9)


def test_leaders_of_earlier_epochs_and_of_earlier_states_are_fenced(cluster: ShareCluster) -> None:
    cluster.answers(2, InitializeState(KEY, 1, 0))
    cluster.answers(2, ReadState(KEY, 5))
    cluster.lead(3)
    for broker_id in (1, 3):
        assert cluster.answers(broker_id, write(4))[0].error is ErrorCode.FENCED_LEADER_EPOCH
        assert (
            cluster.answers(broker_id, ReadState(KEY, 4))[0].error is ErrorCode.FENCED_LEADER_EPOCH
        )
    cluster.answers(2, InitializeState(KEY, 2, 0))
    for broker_id in (1, 3):
        assert cluster.answers(broker_id, write(5))[0].error is ErrorCode.FENCED_STATE_EPOCH
    assert cluster.answers(2, InitializeState(KEY, 1, 0))[0].error is ErrorCode.FENCED_STATE_EPOCH


def test_without_a_leader_the_coordinator_is_looked_for_and_then_given_up(
    cluster: ShareCluster,
) -> None:
    cluster.answers(2, InitializeState(KEY, 1, 0))
    cluster.orders.lead(-1, cluster.brokers)
    waiting = cluster.begin(2, accepted(KEY, 1))
    began_ms = cluster.orders.now_ms
    while waiting.result is None:
        cluster.go_on(500)
    assert waiting.result[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.orders.now_ms - began_ms >= GIVE_UP_MS


def test_the_controller_is_asked_for_the_topic_that_is_not_there_yet() -> None:
    cluster = ShareCluster()
    waiting = cluster.begin(2, InitializeState(KEY, 1, 0))
    assert cluster.wanted == [SHARE_GROUP_STATE]
    cluster.lead(1)
    while waiting.result is None:
        cluster.go_on()
    assert waiting.result[0].error is NONE


@pytest.mark.parametrize("seed", range(3))
def test_no_answered_write_is_lost_while_brokers_die_and_coordinators_move(seed: int) -> None:
    chance = random.Random(seed)
    cluster = ShareCluster()
    cluster.lead(1)
    cluster.answers(2, InitializeState(KEY, 1, 0))
    offsets, asked = count(0, 2), {}
    for _ in range(8):
        for _ in range(chance.randint(1, 4)):
            offset = next(offsets)
            asked[offset] = cluster.begin(chance.choice([*cluster.brokers]), accepted(KEY, offset))
        for _ in range(chance.randint(0, 3)):
            cluster.go_on()
        dead = chance.choice([1, 2, 3, None])
        if dead is not None:
            cluster.kill(dead, CrashMode.STRICT)
            left = tuple(cluster.brokers)
            cluster.lead(chance.choice(left), isr=left)
            cluster.replicate()
        for _ in range(chance.randint(1, 4)):
            cluster.go_on(200)
        if dead is not None:
            cluster.start(dead)
            cluster.read.lead(1, cluster.brokers)
            cluster.lead(chance.choice(left), isr=left)
            cluster.replicate(12)
            cluster.lead(cluster.orders.replicas[chance.randint(0, 2)])
            cluster.replicate()
    results = {offset: one.result for offset, one in asked.items() if one.result is not None}
    answered = {offset for offset, (one,) in results.items() if one.error is NONE}
    (found,) = cluster.answers(1, ReadState(KEY, 0))
    assert answered
    assert answered <= {batch.first for batch in found.state.batches}


def test_replicas_delete_what_their_leader_prunes() -> None:
    cluster = ShareCluster(
        share_coordinator_snapshot_update_records_per_snapshot="1",
        share_coordinator_state_topic_prune_interval_ms="1000",
        log_flush_interval_messages="1",
    )
    cluster.lead(1)
    cluster.answers(2, InitializeState(KEY, 1, 0))
    for offset in range(6):
        cluster.answers(2, accepted(KEY, offset))
    before = cluster.states(1)
    for _ in range(6):
        cluster.go_on(500)
    starts = {one: cluster.log(one).log_start_offset for one in cluster.brokers}
    assert starts == dict.fromkeys((1, 2, 3), before[KEY].snapshot_offset)
    assert before[KEY].snapshot_offset > 3
    cluster.lead(2)
    cluster.load()
    assert cluster.states(2) == before
