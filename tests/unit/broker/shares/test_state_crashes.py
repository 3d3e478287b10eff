"""A crash at any call while states are written and pruned leaves a beginning of what was written,
with all that was answered.
"""

import itertools
from typing import Any

import pytest

from ottla.base.files import FileSystem
from ottla.base.partitions import SHARE_GROUP_STATE
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import DeleteState, InitializeState, SummarizeState
from ottla.coordinator.share.persisted_state import PersistedState, SharePartitionKey
from ottla.testing import FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from tests.support.brokers import NOW_MS, disk, open_broker
from tests.support.share_states import (
    STATE_SETTINGS,
    accepted,
    ask,
    key_of,
    make_topic,
    states_of,
)

States = dict[SharePartitionKey, PersistedState]

EVERY_MS = 300_000
SETTINGS = {
    **STATE_SETTINGS,
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_segment_bytes": "400",
    "share_coordinator_snapshot_update_records_per_snapshot": "3",
    "log_flush_interval_messages": "1",
}


def opened(file_system: FileSystem) -> Broker:
    return open_broker(file_system, ids=itertools.count(1000), **SETTINGS)


def with_topics() -> FakeFileSystem:
    """A disk on which nothing is asked yet."""
    file_system = disk("/d")
    broker = opened(file_system)
    make_topic(broker)
    ask(broker, SummarizeState(key_of(broker)))
    broker.close()
    return file_system


def write_and_prune(file_system: FileSystem, done: list[Any]) -> None:
    """Each promise is the number of changes, and what all states are after so many."""
    broker = opened(file_system)
    history: list[States] = [{}]

    def changed() -> None:
        states = states_of(broker)
        if states != history[-1]:
            history.append(states)
            done.append((len(history) - 1, states))

    keys = [key_of(broker, partition) for partition in range(2)]
    for request in (
        *(InitializeState(key, 1, 0) for key in keys),
        *(accepted(keys[0], offset) for offset in range(0, 10, 2)),
        DeleteState(keys[1]),
        InitializeState(keys[1], 2, 7),
    ):
        ask(broker, request)
        changed()
    broker.budget.limit(lambda: True, lambda deed: deed())
    for count in (1, 2):
        when = Timestamps(now_ms=NOW_MS + count * EVERY_MS, monotonic_ms=count * float(EVERY_MS))
        while (broker.answers.next_deadline_ms or 0) <= when.monotonic_ms:
            broker.answers.advance(when)
            broker.appends.write_out()
            changed()
        broker.scheduler.run_due(when)
    assert broker.topics.partition(SHARE_GROUP_STATE, 0).log.log_start_offset > 3
    ask(broker, accepted(keys[0], 20), when=when)
    changed()


def found_in(file_system: FileSystem) -> States:
    broker = opened(file_system)
    ask(broker, SummarizeState(key_of(broker)))
    return states_of(broker)


@pytest.mark.slow
def test_a_crash_leaves_all_answered_states_and_a_beginning_of_the_others() -> None:
    whole: list[Any] = []
    write_and_prune(with_topics(), whole)
    history = dict(whole)
    history[0] = {}
    count = 0
    for point in every_crash_point(
        write_and_prune, make_file_system=with_topics, seeds=1, share=0.1
    ):
        answered = point.acknowledged[-1][0] if point.acknowledged else 0
        found = found_in(point.file_system)
        assert found in [history[one] for one in range(answered, len(history))], point
        count += 1
    assert count > 100
