"""Orders of controllers that are taken in turns: what other requests find meanwhile, and after."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.controller.requests import (
    LeaderAndIsr,
    Order,
    PartitionOrder,
    StopOrder,
    StopReplica,
)
from ottla.protocol.headers import RequestHeader
from ottla.server.dispatching.request_context import Client, RequestContext
from ottla.server.orders.applying import MAX_PARTITIONS, apply_in_parts
from ottla.testing import CrashMode
from ottla.testing.recording import IoKind, RecordingFileSystem
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment
from tests.support.brokers import at, batch, disk, id_of
from tests.support.replicated_brokers import TOPIC_ID, open_member, replicas_of
from tests.support.turns import TakingTurns, with_others_in_between

ME = 1
HEADER = RequestHeader(5, 4, 7, "controller")
KEPT = TopicPartition("kept", 0)
PLACES = [TopicPartition("orders", index) for index in range(9)]


def to_lead(leader_epoch: int, *places: TopicPartition) -> LeaderAndIsr:
    one = PartitionOrder(
        state=PartitionState(
            leader=ME, leader_epoch=leader_epoch, controller_epoch=leader_epoch, isr=(ME,)
        ),
        partition_epoch=leader_epoch,
        assignment=ReplicaAssignment((ME,)),
        is_new=True,
    )
    return LeaderAndIsr(
        orders=dict.fromkeys(places, one),
        topic_ids={"orders": TOPIC_ID, "kept": id_of(78)},
        live_leaders={},
    )


def to_delete(leader_epoch: int, *places: TopicPartition) -> StopReplica:
    return StopReplica(
        orders=dict.fromkeys(places, StopOrder(leader_epoch=leader_epoch, delete=True))
    )


def apply(broker: Broker, order: Order, controller_epoch: int) -> Applied:
    sender = Sender(controller=ME, controller_epoch=controller_epoch)
    applied = replicas_of(broker).apply(order, sender, at(0))
    replicas_of(broker).save_stopped()
    return applied


def append(broker: Broker, place: TopicPartition) -> None:
    broker.appends.append(broker.topics.partition(*place), batch(), now_ms=1)
    broker.appends.write_out()


def test_a_replica_that_a_later_controller_brings_back_is_not_deleted_by_the_one_before() -> None:
    file_system = disk("/d")
    broker = open_member(ME, file_system)
    apply(broker, to_lead(1, *PLACES[:2], KEPT), 1)
    answers: list[Applied] = []

    def bring_back() -> None:
        if not answers and PLACES[0] not in broker.directories[0].logs:
            answers.append(apply(broker, to_lead(2, PLACES[1]), 2))
            append(broker, PLACES[1])

    with with_others_in_between(bring_back):
        apply(broker, to_delete(1, *PLACES[:2]), 1)
    assert [one.error for one in answers] == [ErrorCode.NONE]
    append(broker, PLACES[1])
    assert set(broker.directories[0].logs) == {PLACES[1], KEPT}
    again = open_member(ME, file_system.crash(CrashMode.STRICT))
    assert list(again.topics.get("orders").partitions) == [1]


def test_two_controllers_may_have_the_same_logs_made_at_a_time() -> None:
    for slices_before in range(12):
        file_system = disk("/d")
        broker = open_member(ME, file_system)
        made: list[int] = []

        def make(epoch: int, broker: Broker = broker, made: list[int] = made) -> None:
            replicas_of(broker).make_logs(to_lead(epoch, *PLACES))
            made.append(epoch)

        with TakingTurns() as turns:
            turns.begin(partial(make, 1))
            turns.run(slices_before)
            turns.begin(partial(make, 2))
        assert sorted(made) == [1, 2]
        assert apply(broker, to_lead(2, *PLACES), 2).error is ErrorCode.NONE
        assert set(broker.directories[0].logs) == set(PLACES)
        logs = {one.index: one.log for one in broker.topics.get("orders").partitions.values()}
        assert all(broker.directories[0].logs[one] is logs[one.partition] for one in PLACES)


def test_checkpoints_are_written_once_for_all_replicas_that_an_order_deletes() -> None:
    file_system = RecordingFileSystem(disk("/d"))
    broker = open_member(ME, file_system)
    apply(broker, to_lead(1, *PLACES), 1)
    file_system.calls.clear()
    apply(broker, to_delete(1, *PLACES[1:]), 1)
    renamed = [one.target or "" for one in file_system.calls if one.kind is IoKind.RENAME]
    assert sum(one.endswith("/recovery-point-offset-checkpoint") for one in renamed) == 1
    apply(broker, to_delete(1, PLACES[0]), 1)
    assert open_member(ME, file_system.inner.crash(CrashMode.STRICT)).topics.find("orders") is None


def test_files_that_list_all_partitions_are_written_once_however_many_an_order_deletes() -> None:
    """Each names thousands: once for each deleted partition took minutes."""
    fake = disk("/d")
    file_system = RecordingFileSystem(fake)
    broker = open_member(ME, file_system)
    places = [TopicPartition("orders", index) for index in range(3 * MAX_PARTITIONS)]
    apply(broker, to_lead(1, *places), 1)
    broker.directories[0].checkpoints.write()
    file_system.calls.clear()
    sender = Sender(controller=ME, controller_epoch=1)
    context = RequestContext(broker, at(0), HEADER, Client(("localhost", 9092), "h"), False)
    with with_others_in_between(lambda: None):
        apply_in_parts(to_delete(1, *places), sender, context)
    renamed = Counter((one.target or "") for one in file_system.calls if one.kind is IoKind.RENAME)
    listing = {path for path, count in renamed.items() if "-delete" not in path}
    assert "/d/recovery-point-offset-checkpoint" in listing
    assert {renamed[path] for path in listing} == {1}
    again = open_member(ME, fake.crash(CrashMode.STRICT))
    assert again.topics.find("orders") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../t", "a\0b", "é", "x" * 250])
def test_a_replica_of_a_name_that_no_directory_may_have_is_refused_alone(name: str) -> None:
    broker = open_member(ME, disk("/d"))
    bad = [TopicPartition(name, 0), TopicPartition("t", -1)]
    order = to_lead(1, *bad, KEPT)
    replicas_of(broker).make_logs(order)
    errors = apply(broker, order, 1).errors
    assert [errors[one] for one in bad] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert set(broker.directories[0].logs) == {KEPT}


def test_a_hosted_topic_with_an_invalid_setting_is_served_and_the_setting_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = open_member(ME, disk("/d"))
    settings = {"kept": {"retention.ms": "many", "segment.bytes": "1000"}}
    order = replace(to_lead(1, KEPT), settings=settings)
    replicas_of(broker).make_logs(order)
    assert apply(broker, order, 1).error is ErrorCode.NONE
    append(broker, KEPT)
    config = broker.topics.get("kept").config
    defaults = broker.settings.config.topic_defaults
    assert (config.segment_bytes, config.retention_ms) == (1000, defaults.retention_ms)
    assert "kept" in caplog.text
    assert "retention.ms=many" in caplog.text
    broker.admin.follow_topic("kept", {"segment.bytes": "x", "retention.ms": "7"}, "ZooKeeper")
    config = broker.topics.get("kept").config
    assert (config.segment_bytes, config.retention_ms) == (defaults.segment_bytes, 7)
    assert "segment.bytes=x" in caplog.text
