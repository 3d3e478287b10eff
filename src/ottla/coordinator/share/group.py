"""A share group (KIP-932): the state that its records describe, in any order.

Members need not give up partitions before others have them, so that a member always has its target
assignment. Only partitions whose state the share coordinators have are assigned. Kafka's
counterpart: `ShareGroup`.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.coordinator.consumer.assigned_group import AssignedGroup
from ottla.coordinator.consumer.partitions import NOTHING, Assignment, from_records, to_records
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopic,
)
from ottla.coordinator.requests import SHARE, GroupListing, MemberClaim
from ottla.coordinator.share.requests import ShareGroupDescription, ShareMemberDescription


class ShareGroupState(Enum):
    """The values are the names in responses to clients."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


SHARE_RECORD_KEYS: Final = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)
"""The keys of the records of a share group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = NOTHING

    def take_metadata(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def metadata_record(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
        )

    def take_current(self, value: ShareGroupCurrentMemberAssignmentValue | None) -> "ShareMember":
        if value is None:
            return replace(self, epoch=0, previous_epoch=0, assigned=NOTHING)
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=from_records(value.assigned_partitions),
        )

    def current_record(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=0,
            assigned_partitions=to_records(self.assigned),
        )


class SharedTopic(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: frozenset[int]


SharedTopics = Mapping[Uuid, SharedTopic]


class ShareGroup(AssignedGroup[ShareMember]):
    """`initialized` are the partitions whose state the share coordinators have, `initializing`
    those that they were asked to begin, `deleting` the topics whose states they were asked to
    delete.

    Only `replay` changes a group, except for two fields that a restart clears: `revision`, the
    catalog's revision when the topics were last looked up, and `asked_ms`, when the share
    coordinators were last asked.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata_hash = 0
        self.assignment_ms = 0
        self.initializing: SharedTopics = {}
        self.initialized: SharedTopics = {}
        self.deleting: Mapping[Uuid, str] = {}
        self.revision: int | None = None
        self.asked_ms: float | None = None
        self._early: dict[str, ShareGroupCurrentMemberAssignmentValue] = {}

    def copy(self) -> "ShareGroup":
        other = copy.copy(self)  # the topics are replaced as a whole
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other._early = dict(self._early)
        return other

    # Replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Applies one of the group's records; a tombstone removes what the record described."""
        match key:
            case ShareGroupMetadataKey():
                assert isinstance(value, ShareGroupMetadataValue | None)
                self.epoch = 0 if value is None else value.epoch
                self.metadata_hash = 0 if value is None else value.metadata_hash
            case ShareGroupMemberMetadataKey():
                assert isinstance(value, ShareGroupMemberMetadataValue | None)
                self._replay_member(key.member_id, value)
            case ShareGroupTargetAssignmentMetadataKey():
                assert isinstance(value, ShareGroupTargetAssignmentMetadataValue | None)
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
                self.assignment_ms = 0 if value is None else value.assignment_timestamp_ms
            case ShareGroupTargetAssignmentMemberKey():
                assert isinstance(value, ShareGroupTargetAssignmentMemberValue | None)
                target = None if value is None else value.topic_partitions
                self._replay_target(key.member_id, target)
            case ShareGroupCurrentMemberAssignmentKey():
                assert isinstance(value, ShareGroupCurrentMemberAssignmentValue | None)
                self._replay_current(key.member_id, value)
            case ShareGroupStatePartitionMetadataKey():
                assert isinstance(value, ShareGroupStatePartitionMetadataValue | None)
                self.initializing = {} if value is None else _topics(value.initializing_topics)
                self.initialized = {} if value is None else _topics(value.initialized_topics)
                gone = () if value is None else value.deleting_topics
                self.deleting = {one.topic_id: one.topic_name for one in gone}

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            return
        member = self.members.get(member_id) or ShareMember(member_id=member_id)
        early = self._early.pop(member_id, None)
        member = member.take_metadata(value)
        self.members[member_id] = member if early is None else member.take_current(early)

    def _replay_current(
        self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self.members[member_id] = member.take_current(value)
        elif value is not None:
            self._early[member_id] = value
        else:
            self._early.pop(member_id, None)

    def is_removed_by(self, key: Message, value: Message | None) -> bool:
        """Whether a record is the tombstone of the group itself."""
        return value is None and isinstance(key, ShareGroupMetadataKey)

    def tombstones(self) -> Iterator[Message]:
        assert self.is_empty
        yield ShareGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        yield ShareGroupStatePartitionMetadataKey(group_id=self.group_id)
        yield ShareGroupMetadataKey(group_id=self.group_id)

    # Interface of `Group`

    def timer_keys(self) -> Iterator[TimerKey]:
        for member_id in self.members:
            yield TimerKey(Due.SESSION, self.group_id, member_id)

    def admit_commit(self, claim: MemberClaim, draft: Draft, *, is_transactional: bool) -> None:
        """Never: a share group has no committed offsets."""
        raise self._no_offsets()

    def check_fetch(self, claim: MemberClaim) -> None:
        """Never, likewise."""
        raise self._no_offsets()

    def check_offset_deletion(self) -> None:
        """Never, likewise."""
        raise self._no_offsets()

    def _no_offsets(self) -> ApiError:
        return ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {self.group_id} is a share group, which commits no offsets.",
        )

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(name for one in self.members.values() for name in one.topic_names)

    def expiry(self, now_ms: int, retention_ms: int) -> None:
        """It does not expire: it keeps where it is in each partition."""

    def listing(self) -> GroupListing:
        return GroupListing(
            group_id=self.group_id, state=self.state.value, protocol_type=SHARE, group_type=SHARE
        )

    def describe(self) -> ShareGroupDescription:
        return ShareGroupDescription(
            group_id=self.group_id,
            state=self.state.value,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            members=tuple(
                ShareMemberDescription(
                    member_id=one.member_id,
                    rack_id=one.rack_id,
                    epoch=one.epoch,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    topic_names=sorted(one.topic_names),
                    assigned=one.assigned,
                )
                for one in self.members.values()
            ),
        )

    # Questions

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY


def _topics(records: Iterable[ShareTopic]) -> SharedTopics:
    return {one.topic_id: SharedTopic(one.topic_name, frozenset(one.partitions)) for one in records}


def topic_records(topics: SharedTopics) -> list[ShareTopic]:
    return [
        ShareTopic(topic_id=topic_id, topic_name=one.name, partitions=sorted(one.partitions))
        for topic_id, one in topics.items()
        if one.partitions
    ]
