"""Changes of ISRs on their way, and the older way over ZooKeeper."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.alter_partitions import (
    AlterPartitions,
    IsrChangePropagation,
    write_states,
)
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.controller.operations import Get, Outcome, Result, Set
from ottla.zookeeper.notices import decode_partitions
from ottla.zookeeper.topics import decode_state

ORDERS = TopicPartition("orders", 0)
CHANGE = AlteredIsr(topic="orders", partition=0, leader_epoch=5, partition_epoch=10, isr=(1, 2))


def test_a_newer_change_of_a_partition_survives_the_answer_to_the_older_one() -> None:
    sent = AlterPartitions()
    sent.submit(CHANGE)
    assert sent.next_request() == (CHANGE,)
    newer = replace(CHANGE, leader_epoch=6)
    sent.submit(newer)
    assert sent.next_request() == ()
    assert sent.answered(1, [AlteredAnswer(change=CHANGE)]) == []
    assert sent.next_request() == (newer,)


def test_what_has_no_answer_is_asked_again() -> None:
    sent = AlterPartitions()
    sent.submit(CHANGE)
    sent.next_request()
    assert sent.answered(1, []) == []
    assert sent.next_request() == (CHANGE,)


@pytest.mark.parametrize(
    ("result", "changed", "error"),
    [
        (Result(version=11), False, ErrorCode.NONE),
        (Result(outcome=Outcome.BAD_VERSION), False, ErrorCode.NONE),
        (Result(outcome=Outcome.BAD_VERSION), True, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_a_state_is_written_by_its_version_and_compared_after_a_repeated_write(
    result: Result, changed: bool, error: ErrorCode
) -> None:
    steps = write_states([CHANGE], leader=1, controller_epoch=4)
    (write,) = next(steps).operations
    assert isinstance(write, Set)
    assert (write.path, write.version) == ("/brokers/topics/orders/partitions/0/state", 10)
    assert steps.send((result,)).operations == (Get(write.path),)
    content = write.content.replace(b'"leader":1', b'"leader":2') if changed else write.content
    with pytest.raises(StopIteration) as done:
        steps.send((Result(content=content, version=11),))
    (answer,) = done.value.value
    assert answer.error is error
    if error is ErrorCode.NONE:
        assert answer.partition_epoch == 11
        assert answer.state == decode_state(ORDERS, write.content)


def test_changes_are_made_known_when_they_pause_or_at_the_latest_after_a_while() -> None:
    changes = IsrChangePropagation()
    changes.record(ORDERS, 10_000)
    assert changes.due(15_000) is None
    assert decode_partitions(changes.due(15_001)) == (ORDERS,)
    changes.propagated(15_001)
    assert changes.due(90_000) is None
    for now_ms in range(20_000, 76_000, 4_000):
        changes.record(ORDERS, now_ms)
    assert changes.due(75_000) is None
    assert changes.due(75_002) is not None
