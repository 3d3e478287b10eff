"""The ISRs that leaders ask for."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.isr import alter_partition
from ottla.metadata.image import RECOVERED, RECOVERING, MetadataImage
from tests.support.kraft_images import then
from tests.support.partition_images import (
    TOPIC,
    TOPIC_ID,
    broker,
    cluster,
    partition,
    partitions_of,
    with_brokers,
)

EPOCH = broker(1).epoch


def change(*isr: int, **values: Any) -> AlteredIsr:
    known: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "partition": 0,
        "leader_epoch": 5,
        "partition_epoch": 9,
        "isr": isr,
        "epochs": tuple(100 + one for one in isr),
    }
    return AlteredIsr(**(known | values))


IMAGE = cluster(partition((1, 2, 3), (1, 2)))


def test_a_leader_gets_the_isr_that_it_asks_for() -> None:
    for wanted in ((1,), (1, 2, 3)):
        records, (answer,) = alter_partition(IMAGE, 1, EPOCH, [change(*wanted)])
        (one,) = partitions_of(then(IMAGE, records))
        assert (one.isr, one.leader, one.leader_epoch, one.partition_epoch) == (wanted, 1, 5, 10)
        assert (answer.error, answer.state, answer.partition_epoch) == (ErrorCode.NONE, one, 10)


def test_an_isr_that_is_there_already_changes_nothing() -> None:
    records, (answer,) = alter_partition(IMAGE, 1, EPOCH, [change(1, 2)])
    assert (records, answer.state) == ([], IMAGE.topics[TOPIC].partitions[0])


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (change(1, topic_id=Uuid(b"x" * 16)), ErrorCode.UNKNOWN_TOPIC_ID),
        (change(1, topic_id=None, topic="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (change(1, partition=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (change(1, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (change(1, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (change(1, leader_epoch=4, partition_epoch=8), ErrorCode.FENCED_LEADER_EPOCH),
        (change(1, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (change(1, 9), ErrorCode.INVALID_REQUEST),
        (change(1, 1), ErrorCode.INVALID_REQUEST),
        (change(2, 3), ErrorCode.INVALID_REQUEST),
        (change(), ErrorCode.INVALID_REQUEST),
        (change(1, recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (change(1, recovery_state=7), ErrorCode.INVALID_REQUEST),
        (change(1, 3, epochs=(101, 99)), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_an_isr_is_refused(asked: AlteredIsr, error: ErrorCode) -> None:
    records, (answer,) = alter_partition(IMAGE, 1, EPOCH, [asked])
    assert (records, answer.error, answer.state) == ([], error, None)


@pytest.mark.parametrize("epochs", [(), (-1, -1), (101, 103)])
def test_epochs_of_brokers_count_where_they_are_known(epochs: tuple[int, ...]) -> None:
    records, _ = alter_partition(IMAGE, 1, EPOCH, [change(1, 3, epochs=epochs)])
    assert partitions_of(then(IMAGE, records))[0].isr == (1, 3)


def test_only_the_leader_changes_an_isr_and_only_with_its_own_epoch() -> None:
    _, (answer,) = alter_partition(IMAGE, 2, broker(2).epoch, [change(1, 2, 3)])
    assert answer.error is ErrorCode.INVALID_REQUEST
    for broker_id, epoch in ((1, EPOCH - 1), (9, EPOCH)):
        with pytest.raises(ApiError) as caught:
            alter_partition(IMAGE, broker_id, epoch, [change(1)])
        assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("state", [{"is_fenced": True}, {"is_shutting_down": True}])
def test_who_is_fenced_or_shuts_down_joins_no_isr(state: dict[str, bool]) -> None:
    image = with_brokers(IMAGE, _3=broker(3, **state))
    _, (answer,) = alter_partition(image, 1, EPOCH, [change(1, 3)])
    assert answer.error is ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_that_recovers_is_alone_until_it_has_recovered() -> None:
    image = cluster(partition((1, 2), (1,), recovery_state=RECOVERING))
    _, (refused,) = alter_partition(image, 1, EPOCH, [change(1, 2, recovery_state=RECOVERING)])
    assert refused.error is ErrorCode.INVALID_REQUEST
    records, _ = alter_partition(image, 1, EPOCH, [change(1, recovery_state=RECOVERING)])
    assert records == []
    records, _ = alter_partition(image, 1, EPOCH, [change(1, recovery_state=RECOVERED)])
    assert partitions_of(then(image, records))[0].recovery_state == RECOVERED


def moving(**values: object) -> MetadataImage:
    return cluster(partition((2, 3, 1), (1, 2), leader=1, adding=(2, 3), removing=(1,), **values))


def test_the_last_replica_of_a_target_completes_the_move_and_another_leads() -> None:
    image = moving()
    records, (answer,) = alter_partition(image, 1, EPOCH, [change(1, 2, 3)])
    (one,) = partitions_of(then(image, records))
    assert (one.replicas, one.isr, one.leader, one.leader_epoch) == ((2, 3), (2, 3), 2, 6)
    assert (one.adding, one.removing) == ((), ())
    assert (answer.error, answer.state) == (ErrorCode.NEW_LEADER_ELECTED, None)


def test_a_completed_move_that_keeps_its_leader_begins_an_epoch_that_the_answer_has() -> None:
    image = cluster(partition((1, 3, 2), (1, 2), adding=(3,), removing=(2,)))
    records, (answer,) = alter_partition(image, 1, EPOCH, [change(1, 2, 3)])
    (one,) = partitions_of(then(image, records))
    assert (one.replicas, one.isr, one.leader, one.leader_epoch) == ((1, 3), (1, 3), 1, 6)
    assert answer.state == one
