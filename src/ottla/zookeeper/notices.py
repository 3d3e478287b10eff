"""Request and notification nodes: queues of administration, and changes that brokers report.

A deletion is requested by a node `/admin/delete_topics/<topic>` without content. Kafka's
counterparts: `ReassignPartitionsZNode`, `PreferredReplicaElectionZNode`,
`IsrChangeNotificationSequenceZNode`, `LogDirEventNotificationSequenceZNode`,
`ConfigEntityChangeNotificationSequenceZNode`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.base.partitions import TopicPartition
from ottla.zookeeper.nodes import (
    decode_node,
    encode_node,
    number,
    numbers,
    parse_partitions,
    partition_fields,
    text,
)
from ottla.zookeeper.paths import PREFERRED_ELECTION, REASSIGN_PARTITIONS

LOG_DIR_FAILURE: Final = 1
CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
"""How long the notice of a changed configuration or ACL is kept for brokers."""

Reassignment = Mapping[TopicPartition, tuple[int, ...]]
"""Partitions with their target replicas."""


def encode_reassignment(wanted: Reassignment) -> bytes:
    partitions = [
        {"topic": one.topic, "partition": one.partition, "replicas": list(replicas)}
        for one, replicas in wanted.items()
    ]
    return encode_node({"version": 1, "partitions": partitions})


def decode_reassignment(content: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    return decode_node(REASSIGN_PARTITIONS, content, _parse_reassignment)


def _parse_reassignment(fields: Any) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(text(one["topic"]), number(one["partition"])): numbers(one["replicas"])
        for one in fields["partitions"]
    }


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """The content of a preferred election, and of a change of ISRs."""
    return encode_node({"version": 1, "partitions": partition_fields(partitions)})


def decode_partitions(
    content: bytes | None, path: str = PREFERRED_ELECTION
) -> tuple[TopicPartition, ...]:
    return decode_node(path, content, parse_partitions)


def encode_log_dir_event(broker_id: int) -> bytes:
    return encode_node({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(content: bytes | None, path: str) -> int:
    """The id of the broker that lost a log directory."""
    return decode_node(path, content, lambda fields: number(fields["broker"]))


def encode_config_change(entity_path: str) -> bytes:
    """The notice of a changed entity such as `topics/orders`."""
    return encode_node({"version": 2, "entity_path": entity_path})


def decode_config_change(content: bytes | None, path: str) -> str:
    """The changed entity; version 1 has its type and name in separate fields."""
    return decode_node(path, content, _parse_config_change)


def _parse_config_change(fields: Any) -> str:
    version = number(fields["version"])
    if version == 1:
        return f"{text(fields['entity_type'])}/{text(fields['entity_name'])}"
    if version != 2:
        raise ValueError(f"version {version}")
    return text(fields["entity_path"])
