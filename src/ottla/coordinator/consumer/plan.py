"""What a decision about a group comes to, while it is being made.

Every record that is written into the draft is replayed into a copy of the group at once, so each
step sees what those before it have decided, and the group itself stays as it is. A heartbeat that
decides nothing copies nothing.
"""

from ottla.codec.schema import Message
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.partitions import Assignment, to_records
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicMetadata,
)


class Plan:
    """`group` is the group as it will be."""

    def __init__(self, group: ConsumerGroup, draft: Draft) -> None:
        self.group = group
        self.draft = draft
        self._group_id = group.group_id
        self._is_copy = False

    def _record(self, key: Message, value: Message | None) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.draft.record(key, value)
        self.group.replay(key, value)

    def describe_member(self, member: Member) -> None:
        """What it has said of itself."""
        key = ConsumerGroupMemberMetadataKey(group_id=self._group_id, member_id=member.member_id)
        self._record(key, member.metadata_record())

    def move_member(self, member: Member) -> None:
        """How far it has come."""
        key = ConsumerGroupCurrentMemberAssignmentKey(
            group_id=self._group_id, member_id=member.member_id
        )
        self._record(key, member.current_record())

    def remove_member(self, member_id: str) -> None:
        for kind in (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupMemberMetadataKey,
        ):
            self._record(kind(group_id=self._group_id, member_id=member_id), None)

    def set_target(self, member_id: str, target: Assignment) -> None:
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=self._group_id, member_id=member_id)
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_records(target))
        self._record(key, value)

    def set_assignment_epoch(self, epoch: int) -> None:
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self._group_id)
        self._record(key, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch))

    def set_topics(self, topics: list[TopicMetadata]) -> None:
        key = ConsumerGroupPartitionMetadataKey(group_id=self._group_id)
        self._record(key, ConsumerGroupPartitionMetadataValue(topics=topics))

    def set_regex(self, regex: str, topics: frozenset[str], revision: int) -> None:
        key = ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=regex)
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=revision, timestamp=self.draft.at.now_ms
        )
        self._record(key, value)

    def forget_regex(self, regex: str) -> None:
        key = ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=regex)
        self._record(key, None)

    def raise_epoch(self) -> None:
        """The members or their topics have changed: a new target is due."""
        key = ConsumerGroupMetadataKey(group_id=self._group_id)
        self._record(key, ConsumerGroupMetadataValue(epoch=self.group.epoch + 1))

    def remove_group(self) -> None:
        """Forgets all of a group, the group itself last."""
        for member_id in list(self.group.members):
            self.remove_member(member_id)
        for regex in list(self.group.regexes):
            self.forget_regex(regex)
        for kind in (
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupMetadataKey,
        ):
            self._record(kind(group_id=self._group_id), None)
