"""The records of `__consumer_offsets`: committed offsets, and the state of groups.

The two bytes before a key are the kind of the record, those before a value its version. A null
value is a tombstone. Kinds 0 and 1 are commits, 2 is a classic group, 3 to 8 and 16 belong to
consumer groups (KIP-848), 10 to 15 to share groups (KIP-932). Kafka 4.1 and later no longer write
kind 4, and ignore an empty one.

Kafka's counterparts: `GroupCoordinatorRecordHelpers`, `GroupCoordinatorRecordSerde`.
"""

from typing import Final

from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.base.turns import Turn
from ottla.codec.fields import array, binary, int8, int32, int64, nested, string, uuid
from ottla.codec.schema import Message, Struct
from ottla.codec.versioned import decode_versioned, encode_versioned, version_of


class OffsetCommitKey(Message, versions="0-1"):
    """Group, topic and partition of a commit. Kinds 0 and 1 are alike; Kafka writes 1."""

    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset.

    `expire_timestamp_ms` comes from clients that chose a retention time, and exists in version 1
    only (KIP-211). Version 3 adds the leader epoch (KIP-320).
    """

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp_ms: int = int64("0+")
    expire_timestamp_ms: int = int64("1", default=-1, ignorable=True)


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2")


class MemberMetadata(Struct):
    """A member of a classic group; subscription and assignment are opaque bytes."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    session_timeout_ms: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A classic group as of its last assignment.

    `protocol` and `leader` are null in an empty group. Version 3 adds static members (KIP-345).
    """

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp_ms: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: str = string("3")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of a consumer group; it rises when members or topics change."""

    epoch: int = int32("0+")


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    group_id: str = string("4")


class PartitionMetadata(Struct):
    partition: int = int32("0+")
    racks: list[str] = array(string, "0+")


class TopicMetadata(Struct):
    topic_id: Uuid = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The subscribed topics as last seen by the group; a difference raises its epoch."""

    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: str = string("5")
    member_id: str = string("5")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class ClassicMemberMetadata(Struct):
    """A member that uses the classic protocol while its group is being migrated."""

    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The metadata that a member sent."""

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: str = string("6")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: int = int32("0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: str = string("7")
    member_id: str = string("7")


class TopicPartitions(Struct):
    topic_id: Uuid = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: str = string("8")
    member_id: str = string("8")


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The current assignment of a member."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(Message, versions="16"):
    group_id: str = string("16")
    regular_expression: str = string("16")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that an expression matched; written by Kafka 4, but not by 3.9.

    `version` is the version of the cluster's topics and `timestamp` the time of the match.
    """

    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")


class ShareGroupMemberMetadataKey(Message, versions="10"):
    group_id: str = string("10")
    member_id: str = string("10")


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The metadata that a member of a share group sent."""

    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")


class ShareGroupMetadataKey(Message, versions="11"):
    group_id: str = string("11")


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of a share group, and a hash of the topics that it reads."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


class ShareGroupTargetAssignmentMetadataKey(Message, versions="12"):
    group_id: str = string("12")


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed, and when."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp_ms: int = int64("0+", default=0, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, versions="13"):
    group_id: str = string("13")
    member_id: str = string("13")


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupCurrentMemberAssignmentKey(Message, versions="14"):
    group_id: str = string("14")
    member_id: str = string("14")


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The current assignment of a member; the state is always 0."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupStatePartitionMetadataKey(Message, versions="15"):
    group_id: str = string("15")


class ShareTopic(Struct):
    topic_id: Uuid = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class DeletedShareTopic(Struct):
    topic_id: Uuid = uuid("0+")
    topic_name: str = string("0+")


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The partitions whose state the share coordinators have, are to have, or are to delete."""

    initializing_topics: list[ShareTopic] = array(ShareTopic, "0+")
    initialized_topics: list[ShareTopic] = array(ShareTopic, "0+")
    deleting_topics: list[DeletedShareTopic] = array(DeletedShareTopic, "0+")


VALUE_CLASSES: Final[dict[type[Message], type[Message]]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
    ShareGroupMemberMetadataKey: ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey: ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey: ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentKey: ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey: ShareGroupStatePartitionMetadataValue,
}

KEY_CLASSES: Final[dict[int, type[Message]]] = {
    kind: key for key in VALUE_CLASSES for kind in range(key.VERSIONS.first, key.VERSIONS.last + 1)
}
"""The key class of each kind of record."""

WRITTEN_VERSIONS: Final[dict[type[Message], int]] = {OffsetCommitValue: 3, GroupMetadataValue: 3}
"""The versions that Kafka 3.9 and 4 write, which older brokers can read; 0 for all others."""

EXPIRING_COMMIT_VERSION: Final = 1


def encode_key(key: Message) -> bytes:
    return encode_versioned(key, key.VERSIONS.last)


def decode_key(buffer: Buffer) -> Message | None:
    """Decodes a key; `None` for an unknown kind of record, which must be left alone.

    Raises `ProtocolError` if the bytes are not a key.
    """
    key_class = KEY_CLASSES.get(version_of(buffer))
    return None if key_class is None else decode_versioned(key_class, buffer)


def encode_value(value: Message, turn: Turn | None = None) -> bytes:
    """Encodes the value in the version that Kafka writes, in turns if `turn` is given."""
    version = WRITTEN_VERSIONS.get(type(value), 0)
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp_ms != -1:
        version = EXPIRING_COMMIT_VERSION
    return encode_versioned(value, version, turn)


def decode_value(key: Message, buffer: Buffer) -> Message:
    """Decodes the value of a key; raises `ProtocolError`."""
    return decode_versioned(VALUE_CLASSES[type(key)], buffer)
