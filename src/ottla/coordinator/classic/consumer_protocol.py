"""Subscriptions and assignments: messages between consumers that the coordinator passes on.

JoinGroup and SyncGroup carry these messages as opaque bytes. The broker decodes them to know which
topics a group subscribes to, and to show assignments. Kafka's counterpart: `ConsumerProtocol`.
"""

from ottla.base.files import Buffer
from ottla.codec.fields import array, binary, int32, string
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members use this format; Kafka Connect has its own format."""


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The subscription of a member.

    Version 1 adds the owned partitions (KIP-429), version 2 the generation in which they were
    assigned (KIP-792), version 3 the rack (KIP-881).
    """

    topics: list[str] = array(string, "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The assignment of a member. All versions have the same fields."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")


def encode_subscription(
    subscription: ConsumerProtocolSubscription,
    version: int = ConsumerProtocolSubscription.VERSIONS.last,
) -> bytes:
    return encode_versioned(subscription, version)


def decode_subscription(buffer: Buffer) -> ConsumerProtocolSubscription:
    """Decodes a subscription; a version newer than ours is read as ours, as in Kafka.

    Raises `ProtocolError` if the bytes are not a subscription.
    """
    return decode_versioned(ConsumerProtocolSubscription, buffer, newer_is_newest=True)


def encode_assignment(
    assignment: ConsumerProtocolAssignment,
    version: int = ConsumerProtocolAssignment.VERSIONS.last,
) -> bytes:
    return encode_versioned(assignment, version)


def decode_assignment(buffer: Buffer) -> ConsumerProtocolAssignment:
    """Decodes an assignment; a version newer than ours is read as ours, as in Kafka.

    Raises `ProtocolError` if the bytes are not an assignment.
    """
    return decode_versioned(ConsumerProtocolAssignment, buffer, newer_is_newest=True)
