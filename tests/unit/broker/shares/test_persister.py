"""States of share groups in a broker alone: what is asked of them, and what a restart finds."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    StateRequest,
    SummarizeState,
    WriteState,
)
from ottla.coordinator.share.coordinator import ShareStateAnswer, StateWrite
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch
from ottla.metadata.deciding.topic_rules import SHARE_GROUP_STATE
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import FakeFileSystem
from tests.support.brokers import at, disk, open_broker

SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "3",
    "log_index_size_max_bytes": "120",
}
ACCEPTED = StateBatch(4, 7, DeliveryState.ACKNOWLEDGED, 1)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    broker = open_broker(file_system, **SETTINGS)
    broker.admin.create_topic(NewTopic(name="t", partition_count=9))
    return broker


def key_of(broker: Broker, partition: int = 0, group_id: str = "jobs") -> SharePartitionKey:
    return SharePartitionKey(group_id, Uuid(broker.topics.get("t").topic_id), partition)


def ask(broker: Broker, *requests: StateRequest) -> list[ShareStateAnswer]:
    """The answers, after as many rounds as they need."""
    waiting = broker.share_persister.wait(requests, at(0))
    for _ in range(20):
        if waiting.result is not None:
            break
        broker.answers.advance(at(0))
    assert waiting.result is not None
    assert waiting in broker.groups.take_answered()
    broker.appends.write_out()
    return waiting.result


def write(key: SharePartitionKey, *batches: StateBatch, start: int = -1) -> WriteState:
    return WriteState(key, StateWrite(1, 0, start, batches))


def test_a_state_is_begun_written_read_and_deleted(broker: Broker) -> None:
    key = key_of(broker)
    assert [one.error for one in ask(broker, InitializeState(key, 1, 3))] == [ErrorCode.NONE]
    assert ask(broker, write(key, ACCEPTED))[0].error is ErrorCode.NONE
    (found,) = ask(broker, ReadState(key, 0))
    assert (found.state.state_epoch, found.state.start_offset) == (1, 3)
    assert found.state.batches == (ACCEPTED,)
    assert ask(broker, DeleteState(key))[0].error is ErrorCode.NONE
    assert ask(broker, SummarizeState(key))[0].state.start_offset == -1


def test_several_keys_are_answered_in_the_order_in_which_they_were_asked(broker: Broker) -> None:
    keys = [key_of(broker, index) for index in (5, 2, 8)]
    ask(broker, *(InitializeState(key, 1, 10 + key.partition) for key in keys))
    answers = ask(broker, *map(SummarizeState, keys), write(keys[0]._replace(partition=99)))
    assert [one.state.start_offset for one in answers[:3]] == [15, 12, 18]
    assert answers[3].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nothing_asked_is_answered_at_once(broker: Broker) -> None:
    assert ask(broker) == []
    assert broker.topics.find(SHARE_GROUP_STATE) is None


def test_a_state_that_was_not_begun_is_refused(broker: Broker) -> None:
    assert ask(broker, write(key_of(broker)))[0].error is ErrorCode.INVALID_REQUEST


def test_the_next_start_replays_all_changes_of_a_state(file_system: FakeFileSystem) -> None:
    broker = open_broker(file_system, **SETTINGS)
    broker.admin.create_topic(NewTopic(name="t", partition_count=9))
    key, gone = key_of(broker), key_of(broker, 1)
    ask(broker, InitializeState(key, 1, 0), InitializeState(gone, 1, 0))
    for offset in (4, 6, 5):
        ask(broker, write(key, StateBatch(offset, offset, DeliveryState.ACKNOWLEDGED, 1)))
    ask(broker, DeleteState(gone))
    (live,) = ask(broker, ReadState(key, 0))
    broker.close()
    again = open_broker(file_system, **SETTINGS)
    replayed, without = ask(again, ReadState(key, 0), SummarizeState(gone))
    assert replayed.state == live.state
    assert replayed.state.batches == (StateBatch(4, 6, DeliveryState.ACKNOWLEDGED, 1),)
    assert without.state.start_offset == -1


def test_only_partitions_that_are_asked_for_are_read(broker: Broker) -> None:
    key = key_of(broker)
    ask(broker, InitializeState(key, 1, 0))
    assert len(list(broker.share_coordinator.shards)) == 1
