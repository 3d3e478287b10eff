"""`/consumers/<group>`: ids, owners and offsets of the old consumer, as of Kafka 0.7.

An owner is `<consumer id>-<stream number>`. Kafka's counterparts: `ZKGroupDirs`, `TopicCount`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ottla.base.values import dataclass
from ottla.zookeeper.nodes import decode_node, decode_number, encode_node, number, text
from ottla.zookeeper.paths import CONSUMERS


class SubscriptionPattern(Enum):
    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRegistration:
    """A consumer's topics, or regular expressions, with the number of streams for each."""

    subscription: Mapping[str, int]
    pattern: SubscriptionPattern = SubscriptionPattern.STATIC
    timestamp_ms: int = 0


def consumer_ids_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def owner_path(group: str, topic: str, partition: str) -> str:
    """The node of a partition's owner; `partition` is a number, or in 0.7 `<broker
    id>-<partition>`.
    """
    return f"{CONSUMERS}/{group}/owners/{topic}/{partition}"


def offset_path(group: str, topic: str, partition: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def encode_consumer(consumer: ConsumerRegistration) -> bytes:
    return encode_node(
        {
            "version": 1,
            "subscription": dict(consumer.subscription),
            "pattern": consumer.pattern.value,
            "timestamp": str(consumer.timestamp_ms),
        }
    )


def decode_consumer(path: str, content: bytes | None) -> ConsumerRegistration:
    return decode_node(path, content, _parse_consumer)


def _parse_consumer(fields: Any) -> ConsumerRegistration:
    return ConsumerRegistration(
        subscription={
            text(topic): number(count) for topic, count in fields["subscription"].items()
        },
        pattern=SubscriptionPattern(fields.get("pattern", "static")),
        timestamp_ms=int(fields.get("timestamp", 0)),
    )


def encode_offset(offset: int) -> bytes:
    return str(offset).encode()


def decode_offset(path: str, content: bytes | None) -> int:
    return decode_number(path, content)
