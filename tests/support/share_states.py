"""States of share groups in a broker alone, over a disk in memory."""

from collections.abc import Mapping
from typing import Final

from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import StateRequest, WriteState
from ottla.coordinator.share.coordinator import ShareStateAnswer, StateWrite
from ottla.coordinator.share.persisted_state import PersistedState, SharePartitionKey
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch
from ottla.metadata.deciding.topics import NewTopic
from tests.support.brokers import at

STATE_SETTINGS: Final[Mapping[str, str]] = {
    "share_coordinator_state_topic_num_partitions": "3",
    "log_index_size_max_bytes": "120",
}
ROUNDS = 50
"""More than any request needs here."""


def make_topic(broker: Broker) -> None:
    """The topic that the groups read."""
    broker.admin.create_topic(NewTopic(name="t", partition_count=9))


def key_of(broker: Broker, partition: int = 0, group_id: str = "jobs") -> SharePartitionKey:
    return SharePartitionKey(group_id, Uuid(broker.topics.get("t").topic_id), partition)


def ask(
    broker: Broker, *requests: StateRequest, when: Timestamps | None = None
) -> list[ShareStateAnswer]:
    """The answers, after as many rounds as they need; what they say is written."""
    when = when or at(0)
    waiting = broker.share_persister.wait(requests, when)
    for _ in range(ROUNDS):
        if waiting.result is not None:
            break
        broker.answers.advance(when)
    assert waiting.result is not None
    assert waiting in broker.groups.take_answered()
    broker.appends.write_out()
    return waiting.result


def accepted(key: SharePartitionKey, first: int, last: int | None = None) -> WriteState:
    """A write by the leader of epoch 0 that records were accepted."""
    batch = StateBatch(first, first if last is None else last, DeliveryState.ACKNOWLEDGED, 1)
    return WriteState(key, StateWrite(1, 0, -1, [batch]))


def states_of(broker: Broker) -> dict[SharePartitionKey, PersistedState]:
    """All that is loaded."""
    known = broker.share_coordinator.known
    return {key: state for machine in known for key, state in machine.states.items()}
