"""`/brokers/topics`: the replicas of each partition, and its leader.

Kafka's counterparts: `TopicZNode`, `TopicPartitionStateZNode`, `ReplicaAssignment`, `LeaderAndIsr`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.metadata.assignments import ReplicaAssignment as ReplicaAssignment
from ottla.zookeeper.nodes import decode_node, encode_node, number, numbers, text
from ottla.zookeeper.paths import state_path, topic_path

NO_LEADER: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery states (KIP-704): RECOVERING after an unclean election."""

TOPIC_VERSION: Final = 3
STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAssignment:
    """The node of a topic. `topic_id` is `None` in clusters before 2.8."""

    partitions: Mapping[int, ReplicaAssignment] = field(default_factory=dict)
    topic_id: Uuid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Leader and ISR of a partition; written by compare-and-set on the version of its node."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    recovery_state: int = RECOVERED


def encode_topic(topic: TopicAssignment) -> bytes:
    partitions = sorted(topic.partitions.items())
    fields: dict[str, Any] = {
        "partitions": {str(one): list(its.replicas) for one, its in partitions}
    }
    if topic.topic_id is not None:
        fields["topic_id"] = uuid_text(topic.topic_id)
    fields["adding_replicas"] = {
        str(one): list(its.adding) for one, its in partitions if its.adding
    }
    fields["removing_replicas"] = {
        str(one): list(its.removing) for one, its in partitions if its.removing
    }
    fields["version"] = TOPIC_VERSION
    return encode_node(fields)


def decode_topic(topic: str, content: bytes | None) -> TopicAssignment:
    """Decodes any version: 1 has partitions, 2 adds reassignments, 3 the topic id. Raises
    `NodeError`.
    """
    return decode_node(topic_path(topic), content, _parse_topic)


def _parse_topic(fields: Any) -> TopicAssignment:
    adding, removing = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
    topic_id = fields.get("topic_id")
    return TopicAssignment(
        partitions={
            int(name): ReplicaAssignment(
                numbers(replicas), numbers(adding.get(name, ())), numbers(removing.get(name, ()))
            )
            for name, replicas in fields.get("partitions", {}).items()
        },
        topic_id=None if topic_id is None else parse_uuid(text(topic_id)),
    )


def encode_state(state: PartitionState) -> bytes:
    fields: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": STATE_VERSION,
    }
    if state.recovery_state != RECOVERED:
        fields["leader_recovery_state"] = state.recovery_state
    fields["leader_epoch"] = state.leader_epoch
    fields["isr"] = list(state.isr)
    return encode_node(fields)


def decode_state(partition: TopicPartition, content: bytes | None) -> PartitionState:
    return decode_node(state_path(partition), content, _parse_state)


def _parse_state(fields: Any) -> PartitionState:
    return PartitionState(
        leader=number(fields["leader"]),
        leader_epoch=number(fields["leader_epoch"]),
        controller_epoch=number(fields["controller_epoch"]),
        isr=numbers(fields["isr"]),
        recovery_state=number(fields.get("leader_recovery_state", RECOVERED)),
    )
