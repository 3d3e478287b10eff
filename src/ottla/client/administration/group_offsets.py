"""Committed offsets of groups, read from and written to their coordinators."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import check
from ottla.client.connecting.connection import Connection
from ottla.coordinator.requests import SHARE
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LAST_VERSION_WITH_NAMES = 9
FIRST_VERSION_OF_MANY = 8
NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A group's committed offset in a partition; the epoch is -1 if the group gave none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class ReadUpTo(NamedTuple):
    """What a group commits of a partition: Kafka's `OffsetAndMetadata`."""

    offset: int
    """Offset of the next record to read."""
    epoch: int = -1
    """Epoch of the preceding record, if known (KIP-320)."""


def committed_here(connection: Connection) -> Iterator[Committed]:
    """All committed offsets of the groups that one broker coordinates; share groups have none.
    Raises `ApiError`.
    """
    answer = connection.ask(ListGroupsRequest())
    check(answer.error_code)
    for group in sorted(one.group_id for one in answer.groups if one.group_type != SHARE):
        yield from committed_by(connection, group)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberId:
    """The identity to commit with as a member: a generation, or the member's epoch (KIP-848)."""

    member_id: str = ""
    epoch: int = NO_GENERATION
    instance_id: str | None = None


OUTSIDER = GroupMemberId()

NO_LONGER_MEMBER = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors of a commit whose partitions the group gave to another member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A consumer's place in its group: offsets that a producer commits for it are refused once the
    group has gone on without it (KIP-447).

    `generation` is -1, and `member_id` empty, for a consumer that is not a member, because it chose
    its partitions itself.

    >>> with ottla.Consumer(log, "kitchen") as consumer:
    ...     consumer.assign([("orders", 0)])
    ...     consumer.group_metadata()
    GroupMetadata(group='kitchen', member_id='', generation=-1, instance_id=None)
    """

    group: str
    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        """Whether the consumer shares the group's partitions with its other members.

        >>> ottla.GroupMetadata(group="kitchen").is_member
        False
        """
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None


def committed_by(
    connection: Connection,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    member: GroupMemberId = OUTSIDER,
    require_stable: bool = False,
) -> Iterator[Committed]:
    """All committed offsets of a group, or those of some partitions, from its coordinator.

    With `require_stable` offsets of open transactions are refused. Raises `ApiError`.
    """
    asked = None if partitions is None else by_topic(partitions)
    version = connection.version_of(ApiKey.OFFSET_FETCH, newest=LAST_VERSION_WITH_NAMES)
    if version >= FIRST_VERSION_OF_MANY:
        many = OffsetFetchRequestGroup(
            group_id=group,
            member_id=member.member_id or None,
            member_epoch=member.epoch,
            topics=None
            if asked is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
                for name, numbers in asked.items()
            ],
        )
        request = OffsetFetchRequest(groups=[many], require_stable=require_stable)
    else:
        topics = None
        if asked is not None:
            topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                for name, numbers in asked.items()
            ]
        request = OffsetFetchRequest(group_id=group, topics=topics)
    answer = connection.ask(request, newest=LAST_VERSION_WITH_NAMES)
    answered = answer.groups[0] if version >= FIRST_VERSION_OF_MANY else answer
    check(answered.error_code)
    for topic in answered.topics:
        for one in topic.partitions:
            check(one.error_code)
            if one.committed_offset >= 0:
                yield Committed(
                    group=group,
                    topic=topic.name,
                    partition=one.partition_index,
                    offset=one.committed_offset,
                    leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata or "",
                )


def commit_from_outside(connection: Connection, offsets: Sequence[Committed]) -> None:
    """Commits offsets of a group without being a member; raises `ApiError` if any is refused.

    Must be sent to the group's coordinator.
    """
    commit_offsets(connection, offsets, OUTSIDER)


def commit_offsets(
    connection: Connection, offsets: Sequence[Committed], member: GroupMemberId
) -> None:
    """Commits offsets as a member of the group."""
    topics = groupby(sorted(offsets, key=_place), lambda one: one.topic)
    request = OffsetCommitRequest(
        group_id=offsets[0].group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=one.partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                    for one in several
                ],
            )
            for topic, several in topics
        ],
    )
    for topic in connection.ask(request, newest=LAST_VERSION_WITH_NAMES).topics:
        for one in topic.partitions:
            check(one.error_code)


def _place(one: Committed) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)
