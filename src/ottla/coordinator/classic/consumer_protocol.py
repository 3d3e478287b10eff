"""Messages between consumers, passed on by the coordinator: subscriptions and assignments.

JoinGroup and SyncGroup carry these as opaque bytes. The broker reads them to know which topics a
group subscribes to, and to show assignments. Kafka's counterpart: `ConsumerProtocol`.
"""

from ottla.base.files import Buffer
from ottla.codec.fields import array, binary, int32, string
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose metadata is in this format; Connect has its own."""


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants to read.

    Version 1 adds what it owns (KIP-429), 2 the generation it owns it from (KIP-792), 3 its rack
    (KIP-881).
    """

    topics: list[str] = array(string, "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member is to read. Its versions differ in number only."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")


def encode_subscription(
    subscription: ConsumerProtocolSubscription,
    version: int = ConsumerProtocolSubscription.VERSIONS.last,
) -> bytes:
    return encode_versioned(subscription, version)


def decode_subscription(buffer: Buffer) -> ConsumerProtocolSubscription:
    """Raises `ProtocolError`; a version newer than ours is read as ours, as Kafka does."""
    return decode_versioned(ConsumerProtocolSubscription, buffer, newer_is_newest=True)


def encode_assignment(
    assignment: ConsumerProtocolAssignment,
    version: int = ConsumerProtocolAssignment.VERSIONS.last,
) -> bytes:
    return encode_versioned(assignment, version)


def decode_assignment(buffer: Buffer) -> ConsumerProtocolAssignment:
    """Raises `ProtocolError`; a version newer than ours is read as ours, as Kafka does."""
    return decode_versioned(ConsumerProtocolAssignment, buffer, newer_is_newest=True)
