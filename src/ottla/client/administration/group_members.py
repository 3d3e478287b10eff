"""Decodes subscriptions and assignments of members of classic groups."""

from collections.abc import Iterable
from contextlib import suppress

from ottla.base.errors import ProtocolError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.descriptions import GroupMember
from ottla.protocol.messages.describe_groups import DescribedGroupMember

CONSUMER = "consumer"
CLASSIC = "classic"
SHARE = "share"


def classic_members(
    protocol_type: str, members: Iterable[DescribedGroupMember]
) -> tuple[GroupMember, ...]:
    """Members are without topics and partitions if they are not consumers, such as those of
    Connect.
    """
    # Most admin requests do not concern members.
    from ottla.coordinator.classic.consumer_protocol import PROTOCOL_TYPE

    is_readable = protocol_type == PROTOCOL_TYPE
    return tuple(_classic_member(one, is_readable) for one in members)


def _classic_member(one: DescribedGroupMember, is_readable: bool) -> GroupMember:
    from ottla.coordinator.classic.consumer_protocol import decode_assignment, decode_subscription

    topics: tuple[str, ...] = ()
    assigned: list[TopicPartition] = []
    with suppress(ProtocolError):
        if is_readable and one.member_metadata:
            topics = tuple(decode_subscription(one.member_metadata).topics)
        if is_readable and one.member_assignment:
            assigned = [
                TopicPartition(topic.topic, index)
                for topic in decode_assignment(one.member_assignment).assigned_partitions
                for index in topic.partitions
            ]
    return GroupMember(
        member_id=one.member_id,
        instance_id=one.group_instance_id,
        client_id=one.client_id,
        host=one.client_host,
        topics=topics,
        assigned=tuple(sorted(assigned)),
    )
