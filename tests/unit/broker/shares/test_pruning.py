"""Records of `__share_group_state` that no state needs are deleted, and no others."""

import pytest

from ottla.base.partitions import SHARE_GROUP_STATE
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import InitializeState
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, disk, open_broker
from tests.support.share_states import (
    STATE_SETTINGS,
    accepted,
    ask,
    key_of,
    make_topic,
    states_of,
)

SETTINGS = {**STATE_SETTINGS, "share_coordinator_state_topic_num_partitions": "1"}
EVERY_MS = 300_000
FLUSHED = {"log_flush_interval_messages": "1"}


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


def opened(file_system: FakeFileSystem, **settings: str) -> Broker:
    broker = open_broker(file_system, **SETTINGS, **settings)
    make_topic(broker)
    return broker


def passed(count: int) -> Timestamps:
    """When so many passes are due since the first state was loaded."""
    return Timestamps(now_ms=NOW_MS + count * EVERY_MS, monotonic_ms=count * float(EVERY_MS))


def prune(broker: Broker, *counts: int) -> None:
    for count in counts:
        broker.answers.advance(passed(count))
        broker.appends.write_out()


def log_of(broker: Broker) -> PartitionLog:
    return broker.topics.partition(SHARE_GROUP_STATE, 0).log


def test_what_is_before_the_oldest_snapshot_in_use_is_deleted_a_pass_later(
    file_system: FakeFileSystem,
) -> None:
    broker = opened(file_system, **FLUSHED)
    cold, busy = key_of(broker, 0), key_of(broker, 1)
    ask(broker, InitializeState(cold, 1, 0), InitializeState(busy, 1, 0))
    for offset in range(0, 10, 2):
        ask(broker, accepted(busy, offset))
    assert log_of(broker).log_end_offset == 7
    prune(broker, 1)
    assert (log_of(broker).log_start_offset, log_of(broker).log_end_offset) == (0, 9)
    prune(broker, 2)
    assert log_of(broker).log_start_offset == 7
    live = states_of(broker)
    broker.close()
    again = open_broker(file_system, **SETTINGS)
    ask(again, accepted(busy, 11))
    assert states_of(again)[cold] == live[cold]
    assert states_of(again)[busy].batches[:-1] == live[busy].batches


def test_nothing_is_deleted_whose_replacement_is_not_on_the_disk(
    file_system: FakeFileSystem,
) -> None:
    broker = opened(file_system)
    ask(broker, InitializeState(key_of(broker), 1, 0))
    prune(broker, 1, 2, 3)
    log = log_of(broker)
    assert log.log_start_offset == 0
    log.writer.flush()
    prune(broker, 4)
    assert log.log_start_offset > 0


def test_states_of_a_deleted_topic_end(file_system: FakeFileSystem) -> None:
    broker = opened(file_system)
    ask(broker, InitializeState(key_of(broker), 1, 0))
    broker.admin.delete_topic(broker.topics.get("t"))
    assert states_of(broker)
    prune(broker, 1)
    assert states_of(broker) == {}


def test_a_pass_goes_on_where_its_time_was_over(file_system: FakeFileSystem) -> None:
    broker = opened(file_system)
    for partition in range(9):
        ask(broker, InitializeState(key_of(broker, partition), 1, 0))
    broker.budget.limit(lambda: True, lambda deed: deed())
    prune(broker, 1)
    assert log_of(broker).log_end_offset == 10
    assert broker.answers.next_deadline_ms == EVERY_MS
    prune(broker, *[1] * 10)
    assert log_of(broker).log_end_offset == 18
